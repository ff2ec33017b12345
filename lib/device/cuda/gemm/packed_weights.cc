#include "device/cuda/gemm/packed_weights.h"

#include "device/cuda/gemm/epilogue.h"
#include "device/cuda/memory/memory.h"
#include "device/weight_views.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kBiasAlignment = 256;

size_t weight_bytes(const ComputeTypes& types, const GemmShape& shape) {
  return size_t{shape.n} * shape.k * dtype_bytes(types.weights);
}

// Uploads the views one after another.
Status upload_all(Transfers& transfers, std::span<const TensorView> views, DType type,
                  std::byte* to) {
  for (const TensorView& view : views) {
    ITIF_TRY(upload_floats(transfers, view, type, to));
    to += view.shape.elements() * dtype_bytes(type);
  }
  return {};
}

}  // namespace

bool has_packed_bias(const ComputeTypes& types, const GemmShape& shape) {
  return adds_narrow_bias(types, shape);
}
size_t packed_bias_offset(const ComputeTypes& types, const GemmShape& shape) {
  return (weight_bytes(types, shape) + kBiasAlignment - 1) / kBiasAlignment * kBiasAlignment;
}
size_t packed_bytes(const ComputeTypes& types, const GemmShape& shape) {
  if (has_packed_bias(types, shape))
    return packed_bias_offset(types, shape) + shape.n * dtype_bytes(types.activations);
  return weight_bytes(types, shape);
}
size_t scratch_bytes(const ComputeTypes& types, const GemmShape& shape) {
  return std::max<size_t>(packed_bytes(types, shape), shape.n * sizeof(float));
}

Status pack(Transfers& transfers, const ComputeTypes& types, const GemmShape& shape,
            std::span<const TensorView> weight, void* target) {
  ITIF_TRY(check_weight(shape, weight));
  auto* const to = static_cast<std::byte*>(target);
  ITIF_TRY(upload_all(transfers, weight, types.weights, to));
  if (!has_packed_bias(types, shape)) return {};
  // NaN until pack_bias() is called, so that a missing call shows.
  return transfers.fill(to + packed_bias_offset(types, shape), 0xFF,
                        shape.n * dtype_bytes(types.activations), "cannot pack weights");
}

Status pack_bias(Transfers& transfers, const ComputeTypes& types, const GemmShape& shape,
                 std::span<const TensorView> bias, void* target) {
  if (!has_packed_bias(types, shape)) return {};
  ITIF_TRY(check_weight({.n = shape.n, .k = 1}, bias));
  return upload_all(transfers, bias, types.activations,
                    static_cast<std::byte*>(target) + packed_bias_offset(types, shape));
}

}  // namespace itif::device::cuda
