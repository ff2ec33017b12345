// Chooses the model of a scenario: a preset, whose sizes the scenario may replace.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "model/spec.h"

namespace itif::sim {

struct ModelChoice {
  // An encoder of texts or images, or an encoder-decoder. The numbers below replace its own if they
  // are not 0.
  std::string preset = "bert-base";
  uint32_t layers = 0, hidden = 0, heads = 0, intermediate = 0, max_positions = 0;
  // Encoder-decoders: layers of the decoder, and the vocabulary, whose logits a step computes.
  uint32_t decoder_layers = 0, vocab = 0;
};

// Errors: kNotFound (preset), kInvalidArgument.
Result<model::BackboneSpec> spec_of(const ModelChoice& choice);
// Returns true if models of the family generate. REQUIRES: spec_of() has made `spec`.
bool generates(const model::BackboneSpec& spec);

}  // namespace itif::sim
