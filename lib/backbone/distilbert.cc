// DistilBERT: BERT's encoder without token types and pooler, with different tensor names. Positions
// are always a table, because checkpoints store sinusoidal positions too.
// Source: Sanh et al., "DistilBERT, a distilled version of BERT", 2019; tensor names as in
// transformers' DistilBertModel.
#include <nlohmann/json.hpp>

#include "backbone/encoder_config.h"
#include "backbone/text_encoder.h"

namespace itif::backbone::distilbert {
namespace {

using model::BackboneSpec;
using model::HeadKind;

constexpr EncoderKeys kKeys = {.layers = "n_layers",
                               .hidden = "dim",
                               .heads = "n_heads",
                               .intermediate = "hidden_dim",
                               .activation = "activation",
                               .reads_position_type = false,
                               .reads_decoder_flags = false};

constexpr model::Architecture kArchitectures[] = {
    {.name = "DistilBertModel"},
    {.name = "DistilBertForMaskedLM"},
    {.name = "DistilBertForSequenceClassification",
     .kind = HeadKind::kClassification,
     .classifier = "classifier",
     .dense = "pre_classifier",
     .dense_activation = kernels::Activation::kRelu},
    {.name = "DistilBertForTokenClassification",
     .kind = HeadKind::kTokenClassification,
     .classifier = "classifier"},
    {.name = "DistilBertForQuestionAnswering",
     .kind = HeadKind::kTokenClassification,
     .classifier = "qa_outputs",
     .labels = "start,end"},
};

Preset preset(std::string_view name, uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {name,
          {.family = "distilbert",
           .layers = layers,
           .hidden = hidden,
           .heads = heads,
           .intermediate = 4 * hidden,
           .vocab = 30522,
           .max_positions = 512}};
}

Result<BackboneSpec> parse(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(BackboneSpec spec, parse_encoder(config, origin, "distilbert", kKeys));
  spec.type_vocab = 0;
  spec.layer_norm_eps = 1e-12f;  // fixed in transformers' code
  return spec;
}

nlohmann::ordered_json config(const BackboneSpec& spec) {
  nlohmann::ordered_json config = encoder_config(spec, kKeys);
  config["sinusoidal_pos_embds"] = false;
  return config;
}

TextEncoderLayout layout(const BackboneSpec& spec) {
  return plain_layout(spec, "distilbert", "transformer.layer.",
                      {.query = "attention.q_lin",
                       .key = "attention.k_lin",
                       .value = "attention.v_lin",
                       .attention_output = "attention.out_lin",
                       .attention_norm = "sa_layer_norm",
                       .up = "ffn.lin1",
                       .down = "ffn.lin2",
                       .output_norm = "output_layer_norm"});
}

}  // namespace

const Family& family() {
  static const Family family = {
      .model_type = "distilbert",
      .heads = {.prefix = "distilbert", .pooler = "", .architectures = kArchitectures},
      .presets = {preset("distilbert-tiny", 2, 128, 2), preset("distilbert-base", 6, 768, 12)},
      .parse = parse,
      .config = config,
      .weight_kinds = [](const BackboneSpec& s) { return text_encoder_kinds(s, layout(s)); },
      .gemms = [](const BackboneSpec& s) { return text_encoder_gemms(s, layout(s)); },
      .make = [](device::Device& device, const BackboneSpec& s,
                 const MakeOptions& o) { return make_text_encoder(device, s, layout(s), o); }};
  return family;
}

}  // namespace itif::backbone::distilbert
