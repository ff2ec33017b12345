#include "sim/model_choice.h"

#include <fmt/format.h>

#include "backbone/family.h"

namespace itif::sim {
namespace {

constexpr uint32_t kEncoderVocab = 1024;

// The decoder is as the encoder, except for its layers.
void replace_decoder(model::BackboneSpec& spec, const ModelChoice& choice) {
  const auto set = [&](std::string_view key, uint64_t value) {
    for (auto& [name, own] : spec.own)
      if (name == key) own = value;
  };
  if (choice.decoder_layers != 0) set("decoder_layers", choice.decoder_layers);
  set("decoder_attention_heads", spec.heads);
  set("decoder_ffn_dim", spec.intermediate);
}

}  // namespace

Result<model::BackboneSpec> spec_of(const ModelChoice& choice) {
  ITIF_ASSIGN(const backbone::Preset* preset, backbone::find_preset(choice.preset));
  model::BackboneSpec spec = preset->spec;
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  if (spec.takes_images() && (choice.max_positions != 0 || choice.vocab != 0))
    return fail(Code::kInvalidArgument,
                fmt::format("model.max_positions and model.vocab: '{}' takes images, which have no "
                            "vocabulary, and as many positions as patches and a class token",
                            choice.preset));
  const auto replace = [](uint32_t& field, uint32_t value) {
    if (value != 0) field = value;
  };
  replace(spec.layers, choice.layers);
  replace(spec.hidden, choice.hidden);
  replace(spec.heads, choice.heads);
  if (choice.hidden != 0) spec.intermediate = 4 * spec.hidden;
  replace(spec.intermediate, choice.intermediate);
  replace(spec.max_positions, choice.max_positions);
  if (family->make_decoder) {
    replace_decoder(spec, choice);
  } else if (!spec.takes_images()) {
    // No cost of an encoder depends on the vocabulary, but the time to load a model does.
    spec.vocab = kEncoderVocab;
  }
  replace(spec.vocab, choice.vocab);
  if (spec.hidden % spec.heads != 0)
    return fail(Code::kInvalidArgument, "model.hidden must be a multiple of model.heads");
  return family->parse(family->config(spec), "model");
}

bool generates(const model::BackboneSpec& spec) {
  return backbone::find_family(spec.family).value()->make_decoder != nullptr;
}

}  // namespace itif::sim
