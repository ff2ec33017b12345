#include "backbone/block_gemms.h"

namespace itif::backbone {

BlockShapes::BlockShapes(const model::BackboneSpec& spec)
    : qkv{3 * spec.hidden, spec.hidden},
      out{spec.hidden, spec.hidden},
      up{spec.intermediate, spec.hidden, spec.activation},
      down{spec.hidden, spec.intermediate} {}

kernels::GroupedGemm product(const kernels::Slab& weight, const GemmRanges& ranges,
                             const PreparedShape& gemm, const void* a, void* out) noexcept {
  return {.a = a,
          .weights = weight,
          .bias = {},
          .out = out,
          .n = gemm.shape.n,
          .k = gemm.shape.k,
          .ranges = ranges.ranges,
          .schedule = ranges.schedule,
          .prepared = gemm.handle.get()};
}

void launch_linear(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                   const PreparedShape& gemm, size_t kind, const void* a, void* out) noexcept {
  if (is_thesis(gemm)) {
    stream.launch(product(weights[kind], pass.gemm(kind), gemm, a, out));
    stream.launch(kernels::BiasActivation{.x = out,
                                          .bias = weights[kind + 1],
                                          .width = gemm.shape.n,
                                          .activation = gemm.shape.activation,
                                          .ranges = pass.ranges,
                                          .has_thesis_grid = true});
    return;
  }
  const GemmRanges ranges = pass.gemm(kind);
  const bool is_changed = pass.adapters.change(kind);
  const kernels::Activation activation = gemm.shape.activation;
  stream.launch(
      kernels::GroupedGemm{.a = a,
                           .weights = weights[kind],
                           .bias = weights[kind + 1],
                           .out = out,
                           .n = gemm.shape.n,
                           .k = gemm.shape.k,
                           .activation = is_changed ? kernels::Activation::kNone : activation,
                           .ranges = ranges.ranges,
                           .schedule = ranges.schedule,
                           .prepared = gemm.handle.get()});
  if (!is_changed) return;
  const uint32_t first_module = pass.adapters.first_module[kind];
  stream.launch(
      kernels::AddLowRank{.x = a,
                          .out = out,
                          .k = gemm.shape.k,
                          .width = gemm.shape.n,
                          .adapters = pass.adapters.rows,
                          .first_module = first_module,
                          .num_modules = pass.adapters.first_module[kind + 1] - first_module});
  if (activation == kernels::Activation::kNone) return;
  stream.launch(kernels::BiasActivation{.x = out,
                                        .bias = {},
                                        .width = gemm.shape.n,
                                        .activation = activation,
                                        .ranges = pass.ranges});
}

}  // namespace itif::backbone
