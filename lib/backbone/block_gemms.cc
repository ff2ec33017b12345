#include "backbone/block_gemms.h"

namespace itif::backbone {

BlockShapes::BlockShapes(const model::BackboneSpec& spec)
    : qkv{3 * spec.hidden, spec.hidden},
      out{spec.hidden, spec.hidden},
      up{spec.intermediate, spec.hidden, spec.activation},
      down{spec.hidden, spec.intermediate} {}

kernels::GroupedGemm product(const kernels::Slab& weight, const Pass& pass,
                             const PreparedShape& gemm, const void* a, void* out) noexcept {
  return {.a = a,
          .weights = weight,
          .bias = {},
          .out = out,
          .n = gemm.shape.n,
          .k = gemm.shape.k,
          .ranges = pass.ranges,
          .schedule = pass.gemm_schedule,
          .prepared = gemm.handle.get()};
}

void launch_linear(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                   const PreparedShape& gemm, size_t kind, const void* a, void* out) noexcept {
  if (is_thesis(gemm)) {
    stream.launch(product(weights[kind], pass, gemm, a, out));
    stream.launch(kernels::BiasActivation{.x = out,
                                          .bias = weights[kind + 1],
                                          .width = gemm.shape.n,
                                          .activation = gemm.shape.activation,
                                          .ranges = pass.ranges,
                                          .has_thesis_grid = true});
    return;
  }
  stream.launch(kernels::GroupedGemm{.a = a,
                                     .weights = weights[kind],
                                     .bias = weights[kind + 1],
                                     .out = out,
                                     .n = gemm.shape.n,
                                     .k = gemm.shape.k,
                                     .activation = gemm.shape.activation,
                                     .ranges = pass.ranges,
                                     .schedule = pass.gemm_schedule,
                                     .prepared = gemm.handle.get()});
}

}  // namespace itif::backbone
