// An encoder block's weight kinds and GEMMs, which the block (encoder_block.h) and its attention
// (block_attention.h) share.
#pragma once

#include "backbone/family.h"

namespace itif::backbone {

// A block's weight kinds, in order. Post- and pre-LayerNorm blocks have the same order. Kinds that
// the attention adds follow.
enum BlockKind : size_t {
  kQkvWeight,
  kQkvBias,
  kOutWeight,
  kOutBias,
  kAttentionGamma,
  kAttentionBeta,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias,
  kFfnGamma,
  kFfnBeta,
  kNumBlockKinds
};

// A GEMM and its handle on the device.
struct PreparedShape {
  device::GemmShape shape;
  device::GemmHandle handle = nullptr;
};
// Returns true for a GEMM of a pass in fusion mode "thesis", where add-bias is an operator.
inline bool is_thesis(const PreparedShape& gemm) noexcept {
  return !gemm.shape.has_bias;
}

struct BlockShapes {
  device::GemmShape qkv, out, up, down;
  explicit BlockShapes(const model::BackboneSpec& spec);
};

// Returns the arguments of out = a · Wᵀ; launches nothing. `ranges`: Pass::gemm(). REQUIRES: the
// GEMM has no bias.
kernels::GroupedGemm product(const kernels::Slab& weight, const GemmRanges& ranges,
                             const PreparedShape& gemm, const void* a, void* out) noexcept;
// out = activation(a · Wᵀ + bias): weight kind `kind`, bias kind + 1. The updates of the batch's
// adapters are added before the activation. Launches one operator, one more for updates, and one
// for what the GEMM cannot add. REQUIRES: no adapter changes the kind if the GEMM has no bias.
void launch_linear(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                   const PreparedShape& gemm, size_t kind, const void* a, void* out) noexcept;

}  // namespace itif::backbone
