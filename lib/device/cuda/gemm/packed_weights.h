// Packed weights of GEMMs. W is row-major [n, k] in the weights' type. If an epilogue adds the bias
// in 16 bits (epilogue.h), a copy of the bias in that type follows at packed_bias_offset(). Scales
// of quantised weights would follow in the same way.
#pragma once

#include <span>

#include "device/cuda/memory/transfers.h"
#include "device/device.h"

namespace itif::device::cuda {

bool has_packed_bias(const ComputeTypes& types, const GemmShape& shape);
size_t packed_bias_offset(const ComputeTypes& types, const GemmShape& shape);
size_t packed_bytes(const ComputeTypes& types, const GemmShape& shape);
// Bytes that can take the place of the packed weight, and of a separate bias.
size_t scratch_bytes(const ComputeTypes& types, const GemmShape& shape);

// As in Device.
Status pack(Transfers& transfers, const ComputeTypes& types, const GemmShape& shape,
            std::span<const TensorView> weight, void* target);
Status pack_bias(Transfers& transfers, const ComputeTypes& types, const GemmShape& shape,
                 std::span<const TensorView> bias, void* target);

}  // namespace itif::device::cuda
