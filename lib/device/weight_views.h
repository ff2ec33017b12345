// Checks the tensor views that are packed into one weight, from the top down.
#pragma once

#include <span>

#include "device/device.h"

namespace itif::device {

// Errors: kInvalidArgument, the views have more or fewer elements than a weight of this shape.
Status check_weight(const GemmShape& shape, std::span<const TensorView> weight);

}  // namespace itif::device
