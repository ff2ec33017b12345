// Marian's weight kinds, in order, and its forward passes. The family is in marian.cc.
#pragma once

#include <memory>
#include <vector>

#include "backbone/decoder.h"

namespace itif::backbone::marian {

// Keys of BackboneSpec::own and of config.json.
inline constexpr const char* kLayers = "decoder_layers";
inline constexpr const char* kHeads = "decoder_attention_heads";
inline constexpr const char* kIntermediate = "decoder_ffn_dim";
inline constexpr const char* kScaleEmbedding = "scale_embedding";

std::vector<model::WeightKind> weight_kinds(const model::BackboneSpec& spec);
std::vector<GemmUse> gemms(const model::BackboneSpec& spec);
// Errors: kResourceExhausted, kUnsupported.
Result<std::unique_ptr<Decoder>> make_decoder(device::Device& device,
                                              const model::BackboneSpec& spec,
                                              const DecoderOptions& options);
}  // namespace itif::backbone::marian
