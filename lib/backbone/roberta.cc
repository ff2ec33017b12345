// RoBERTa: BERT's encoder. Positions start after the padding id, and a classification head with its
// own dense layer replaces the pooler. This also fits XLM-RoBERTa and CamemBERT checkpoints, except
// for their tokenizers.
// Source: Liu et al., "RoBERTa: A Robustly Optimized BERT Pretraining Approach", 2019; tensor names
// as in transformers' RobertaModel. As there, a padding id inside a text is attended to, but takes
// no position.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backbone/encoder_config.h"
#include "backbone/text_encoder.h"
#include "json/json_file.h"

namespace itif::backbone::roberta {
namespace {

using model::BackboneSpec;
using model::HeadKind;

constexpr const char* kPadding = "pad_token_id";

constexpr model::Architecture kArchitectures[] = {
    {.name = "RobertaModel"},
    {.name = "RobertaForMaskedLM"},
    {.name = "RobertaForSequenceClassification",
     .kind = HeadKind::kClassification,
     .classifier = "classifier.out_proj",
     .dense = "classifier.dense"},
    {.name = "RobertaForTokenClassification",
     .kind = HeadKind::kTokenClassification,
     .classifier = "classifier"},
    {.name = "RobertaForQuestionAnswering",
     .kind = HeadKind::kTokenClassification,
     .classifier = "qa_outputs",
     .labels = "start,end"},
};

BackboneSpec with_padding(BackboneSpec spec, uint32_t padding) {
  spec.position_base = padding + 1;
  spec.own = {{kPadding, uint64_t{padding}}};
  return spec;
}

Preset preset(std::string_view name, uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {name, with_padding({.family = "roberta",
                              .layers = layers,
                              .hidden = hidden,
                              .heads = heads,
                              .intermediate = 4 * hidden,
                              .layer_norm_eps = 1e-5f,
                              .vocab = 50265,
                              .max_positions = 514,
                              .type_vocab = 1},
                             1)};
}

Result<BackboneSpec> parse(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(BackboneSpec spec, parse_encoder(config, origin, "roberta"));
  ITIF_ASSIGN(const uint32_t padding,
              json_file::get_uint_or(config, kPadding, 0, spec.vocab - 1, 1, origin));
  if (padding + 1 >= spec.max_positions)
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: 'max_position_embeddings' must be more than '{}' + 1, as positions "
                    "start after it, found {} and {}",
                    origin, kPadding, spec.max_positions, padding));
  return with_padding(std::move(spec), padding);
}

nlohmann::ordered_json config(const BackboneSpec& spec) {
  nlohmann::ordered_json config = encoder_config(spec);
  config[kPadding] = spec.position_base - 1;
  config["bos_token_id"] = 0;
  config["eos_token_id"] = 2;
  return config;
}

TextEncoderLayout layout(const BackboneSpec& spec) {
  TextEncoderLayout layout = plain_layout(spec, "roberta", "encoder.layer.",
                                          {.query = "attention.self.query",
                                           .key = "attention.self.key",
                                           .value = "attention.self.value",
                                           .attention_output = "attention.output.dense",
                                           .attention_norm = "attention.output.LayerNorm",
                                           .up = "intermediate.dense",
                                           .down = "output.dense",
                                           .output_norm = "output.LayerNorm"});
  return layout;
}

}  // namespace

const Family& family() {
  static const Family family = {
      .model_type = "roberta",
      .heads = {.prefix = "roberta", .pooler = "pooler.dense", .architectures = kArchitectures},
      .presets = {preset("roberta-tiny", 2, 128, 2), preset("roberta-base", 12, 768, 12),
                  preset("roberta-large", 24, 1024, 16)},
      .parse = parse,
      .config = config,
      .weight_kinds = [](const BackboneSpec& s) { return text_encoder_kinds(s, layout(s)); },
      .gemms = [](const BackboneSpec& s) { return text_encoder_gemms(s, layout(s)); },
      .make = [](device::Device& device, const BackboneSpec& s,
                 const MakeOptions& o) { return make_text_encoder(device, s, layout(s), o); }};
  return family;
}

}  // namespace itif::backbone::roberta
