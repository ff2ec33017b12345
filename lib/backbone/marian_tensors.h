// Marian's tied and fixed tensors: one embedding under several names, and sinusoidal positions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/checkpoint.h"
#include "model/spec.h"

namespace itif::backbone::marian {

// The names under which a checkpoint may store the embedding, in the order of preference.
std::vector<std::string> embedding_names();

// Returns the positions [num_positions, hidden]. Source: transformers'
// MarianSinusoidalPositionalEmbedding: sines in the first half of a row, cosines in the second.
std::vector<float> sinusoids(uint32_t num_positions, uint32_t hidden);

// Checks the tensors that a checkpoint stores beside the ones that are read. transformers uses each
// embedding that differs from the shared one, and the positions that are stored. Errors:
// kUnsupported: another embedding, or positions beyond rounding; those of Checkpoint::read.
Status check_tensors(const model::BackboneSpec& spec, const model::Checkpoint& checkpoint);

}  // namespace itif::backbone::marian
