#include "model/packed_matrix.h"

namespace itif::model {

Result<size_t> gemm_stride_bytes(device::Device& device, const device::GemmShape& shape) {
  ITIF_ASSIGN(const size_t bytes, device.packed_bytes(shape));
  return (bytes + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
}

Status pack_matrix(device::Device& device, const WeightKind& kind,
                   std::span<const TensorView> weight, std::byte* target) {
  if (kind.num_gemms == 1) return device.pack(kind.gemm, weight, target);
  ITIF_ASSIGN(const size_t stride, gemm_stride_bytes(device, kind.gemm));
  for (uint32_t i = 0; i < kind.num_gemms; ++i, target += stride) {
    uint64_t rows = 0;
    size_t count = 0;
    while (rows < kind.gemm.n && count < weight.size()) rows += weight[count++].shape[0];
    ITIF_TRY(device.pack(kind.gemm, weight.first(count), target));
    weight = weight.subspan(count);
  }
  return {};
}

}  // namespace itif::model
