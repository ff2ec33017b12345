// Host tensors as the element type that a device computes with.
#pragma once

#include "tensor/tensor_view.h"

namespace itif::device {

// Writes the elements of `source` to `target` as `type`. REQUIRES: source is of a floating-point type,
// type is one, too (rounded to nearest even).
void convert_floats(const TensorView& source, DType type, std::byte* target);

}  // namespace itif::device
