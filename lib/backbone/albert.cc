// ALBERT: narrow embeddings are projected to the hidden size, and layers share blocks: each block
// is stored once and runs many times.
// Source: Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning", 2020; tensor names and
// order of operations as in transformers' AlbertModel.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backbone/encoder_config.h"
#include "backbone/text_encoder.h"
#include "json/json_file.h"

namespace itif::backbone::albert {
namespace {

using model::BackboneSpec;
using model::HeadKind;

constexpr EncoderKeys kKeys = {.default_activation = "gelu_new", .reads_decoder_flags = false};
constexpr const char* kEmbedding = "embedding_size";
constexpr const char* kGroups = "num_hidden_groups";
constexpr const char* kInner = "inner_group_num";  // blocks of a group, run one after another

constexpr model::Architecture kArchitectures[] = {
    {.name = "AlbertModel"},
    {.name = "AlbertForMaskedLM"},
    {.name = "AlbertForPreTraining"},
    {.name = "AlbertForSequenceClassification",
     .kind = HeadKind::kClassification,
     .classifier = "classifier"},
    {.name = "AlbertForTokenClassification",
     .kind = HeadKind::kTokenClassification,
     .classifier = "classifier"},
    {.name = "AlbertForQuestionAnswering",
     .kind = HeadKind::kTokenClassification,
     .classifier = "qa_outputs",
     .labels = "start,end"},
};

Preset preset(std::string_view name, uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {name,
          {.family = "albert",
           .layers = layers,
           .hidden = hidden,
           .heads = heads,
           .intermediate = 4 * hidden,
           .activation = kernels::Activation::kGeluTanh,
           .vocab = 30000,
           .max_positions = 512,
           .type_vocab = 2,
           .own = {{kEmbedding, uint64_t{128}}, {kGroups, uint64_t{1}}, {kInner, uint64_t{1}}}}};
}

Result<BackboneSpec> parse(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(BackboneSpec spec, parse_encoder(config, origin, "albert", kKeys));
  ITIF_ASSIGN(const uint64_t embedding,
              json_file::get_uint_or(config, kEmbedding, 1, 16384, 128, origin));
  ITIF_ASSIGN(const uint64_t groups,
              json_file::get_uint_or(config, kGroups, 1, spec.layers, 1, origin));
  ITIF_ASSIGN(const uint64_t inner, json_file::get_uint_or(config, kInner, 1, 256, 1, origin));
  spec.own = {{kEmbedding, embedding}, {kGroups, groups}, {kInner, inner}};
  return spec;
}

nlohmann::ordered_json config(const BackboneSpec& spec) {
  nlohmann::ordered_json config = encoder_config(spec, kKeys);
  for (const char* key : {kEmbedding, kGroups, kInner}) config[key] = spec.number(key);
  return config;
}

TextEncoderLayout layout(const BackboneSpec& spec) {
  const auto groups = static_cast<uint32_t>(spec.number(kGroups));
  const auto inner = static_cast<uint32_t>(spec.number(kInner));
  TextEncoderLayout layout{.prefix = "albert",
                           .names = {.query = "attention.query",
                                     .key = "attention.key",
                                     .value = "attention.value",
                                     .attention_output = "attention.dense",
                                     .attention_norm = "attention.LayerNorm",
                                     .up = "ffn",
                                     .down = "ffn_output",
                                     .output_norm = "full_layer_layer_norm"},
                           .blocks = {},
                           .block_of_layer = {},
                           .embedding = static_cast<uint32_t>(spec.number(kEmbedding)),
                           .projection = "encoder.embedding_hidden_mapping_in"};
  for (uint32_t group = 0; group < groups; ++group)
    for (uint32_t i = 0; i < inner; ++i)
      layout.blocks.push_back(
          fmt::format("encoder.albert_layer_groups.{}.albert_layers.{}.", group, i));
  const double per_group = static_cast<double>(spec.layers) / groups;
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    for (uint32_t i = 0; i < inner; ++i)
      layout.block_of_layer.push_back(static_cast<uint32_t>(layer / per_group) * inner + i);
  return layout;
}

}  // namespace

const Family& family() {
  static const Family family = {
      .model_type = "albert",
      .heads = {.prefix = "albert", .pooler = "pooler", .architectures = kArchitectures},
      .presets = {preset("albert-tiny", 4, 256, 4), preset("albert-base", 12, 768, 12),
                  preset("albert-large", 24, 1024, 16), preset("albert-xlarge", 24, 2048, 16)},
      .parse = parse,
      .config = config,
      .weight_kinds = [](const BackboneSpec& s) { return text_encoder_kinds(s, layout(s)); },
      .gemms = [](const BackboneSpec& s) { return text_encoder_gemms(s, layout(s)); },
      .make = [](device::Device& device, const BackboneSpec& s,
                 const MakeOptions& o) { return make_text_encoder(device, s, layout(s), o); }};
  return family;
}

}  // namespace itif::backbone::albert
