#include "backbone/fused_attention.h"

#include <cmath>

namespace itif::backbone {

Result<std::unique_ptr<BlockAttention>> FusedAttention::make(device::Device& device,
                                                             const model::BackboneSpec& spec,
                                                             const MakeOptions& options) {
  std::unique_ptr<FusedAttention> attention(new FusedAttention(spec));
  PreparedShape& qkv = attention->qkv_;
  qkv.shape = BlockShapes(spec).qkv;
  ITIF_ASSIGN(qkv.handle, device.prepare(qkv.shape, options.max_rows));
  return attention;
}

void FusedAttention::launch(device::Stream& stream, const model::WeightView& weights,
                            const Pass& pass, size_t base, const AttentionRows& rows) noexcept {
  launch_linear(stream, weights, pass, qkv_, base + kQkvWeight, rows.x, rows.scratch);
  stream.launch(kernels::Attention{.qkv = rows.scratch,
                                   .out = rows.context,
                                   .segments = pass.segments,
                                   .score_matrices = pass.score_matrices,
                                   .num_heads = spec_.heads,
                                   .head_size = spec_.head_size(),
                                   .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_size())),
                                   .max_bucket_rows = pass.has_bucket ? pass.num_rows : 0});
}

}  // namespace itif::backbone
