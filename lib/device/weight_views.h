// What is packed into one weight: views that fill it from the top down.
#pragma once

#include <span>

#include "device/device.h"

namespace itif::device {

// Errors: kInvalidArgument, unless they have as many elements as a GEMM of this shape.
Status check_weight(const GemmShape& shape, std::span<const TensorView> weight);

}  // namespace itif::device
