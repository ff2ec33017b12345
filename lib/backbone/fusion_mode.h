// The fusion mode of a block's operators: fused as far as it pays, or as in ITIF (the thesis), so
// that the two can be compared.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "device/device.h"

namespace itif::backbone {

enum class FusionMode : uint8_t {
  // Query, key and value are one GEMM. GEMMs add their biases. Attention is one operator that keeps
  // its scores in caches and skips padding.
  kFused,
  // ITIF's operators (sections 4.2.1 to 4.2.3, based on FasterTransformer's): three GEMMs for
  // query, key and value; add-bias and split heads; BatchedGEMM, softmax, BatchedGEMM over scores
  // in memory, padding included; merge heads; add-bias with the activation or with residual and
  // LayerNorm. Encoders only.
  kThesis,
};

// Parses "fused" or "thesis". Errors: kInvalidArgument, listing both.
Result<FusionMode> parse_fusion_mode(std::string_view name);

// Returns the shape of a GEMM of num_modules stacked modules; in thesis mode, the shape of one
// module's GEMM, without bias because add-bias is a separate operator.
device::GemmShape in_fusion_mode(device::GemmShape shape, FusionMode fusion_mode,
                                 uint32_t num_modules = 1);

}  // namespace itif::backbone
