// BERT: post-LayerNorm encoder with learned positions and token types.
// Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019; tensor
// names and order of operations as in transformers' BertModel.
#include <nlohmann/json.hpp>

#include "backbone/encoder_config.h"
#include "backbone/text_encoder.h"

namespace itif::backbone::bert {
namespace {

using model::BackboneSpec;
using model::HeadKind;

constexpr model::Architecture kArchitectures[] = {
    {.name = "BertModel"},
    {.name = "BertForMaskedLM"},
    {.name = "BertForPreTraining"},
    {.name = "BertForSequenceClassification",
     .kind = HeadKind::kClassification,
     .classifier = "classifier"},
    {.name = "BertForNextSentencePrediction",
     .kind = HeadKind::kClassification,
     .classifier = "cls.seq_relationship",
     .labels = "is_next,is_random"},
    {.name = "BertForTokenClassification",
     .kind = HeadKind::kTokenClassification,
     .classifier = "classifier"},
    {.name = "BertForQuestionAnswering",
     .kind = HeadKind::kTokenClassification,
     .classifier = "qa_outputs",
     .labels = "start,end"},
};

Preset preset(std::string_view name, uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {name,
          {.family = "bert",
           .layers = layers,
           .hidden = hidden,
           .heads = heads,
           .intermediate = 4 * hidden,
           .vocab = 30522,
           .max_positions = 512,
           .type_vocab = 2}};
}

Result<BackboneSpec> parse(const nlohmann::json& config, const std::string& origin) {
  return parse_encoder(config, origin, "bert");
}

nlohmann::ordered_json config(const BackboneSpec& spec) {
  return encoder_config(spec);
}

TextEncoderLayout layout(const BackboneSpec& spec) {
  return plain_layout(spec, "bert", "encoder.layer.",
                      {.query = "attention.self.query",
                       .key = "attention.self.key",
                       .value = "attention.self.value",
                       .attention_output = "attention.output.dense",
                       .attention_norm = "attention.output.LayerNorm",
                       .up = "intermediate.dense",
                       .down = "output.dense",
                       .output_norm = "output.LayerNorm"});
}

}  // namespace

const Family& family() {
  static const Family family = {
      .model_type = "bert",
      .heads = {.prefix = "bert", .pooler = "pooler.dense", .architectures = kArchitectures},
      .presets = {preset("bert-tiny", 2, 128, 2), preset("bert-mini", 4, 256, 4),
                  preset("bert-small", 4, 512, 8), preset("bert-medium", 8, 512, 8),
                  preset("bert-base", 12, 768, 12), preset("bert-large", 24, 1024, 16),
                  preset("minilm-l6", 6, 384, 12), preset("minilm-l12", 12, 384, 12)},
      .parse = parse,
      .config = config,
      .weight_kinds = [](const BackboneSpec& s) { return text_encoder_kinds(s, layout(s)); },
      .gemms = [](const BackboneSpec& s) { return text_encoder_gemms(s, layout(s)); },
      .make = [](device::Device& device, const BackboneSpec& s,
                 const MakeOptions& o) { return make_text_encoder(device, s, layout(s), o); }};
  return family;
}

}  // namespace itif::backbone::bert
