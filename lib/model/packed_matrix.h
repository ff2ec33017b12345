// Matrices of a weight kind in the device's packed layout.
#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"
#include "device/device.h"
#include "model/weight_kind.h"
#include "tensor/tensor_view.h"

namespace itif::model {

inline constexpr size_t kVectorAlignment = 64;  // a cache line, and any vector load

// Bytes from one packed weight to the next in a sequence of one shape.
Result<size_t> gemm_stride_bytes(device::Device& device, const device::GemmShape& shape);
// Packs a matrix [num_gemms · gemm.n, gemm.k] from views that fill it from the top down. REQUIRES:
// no view belongs to two GEMMs. Errors: those of Device::pack.
Status pack_matrix(device::Device& device, const WeightKind& kind,
                   std::span<const TensorView> weight, std::byte* target);

}  // namespace itif::model
