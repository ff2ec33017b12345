// Converts host tensors to the element type that a device computes with.
#pragma once

#include "tensor/tensor_view.h"

namespace itif::device {

// Writes the elements of `source` to `target` as `type`, rounded to nearest even. REQUIRES:
// source.dtype and `type` are floating-point types.
void convert_floats(const TensorView& source, DType type, std::byte* target);

}  // namespace itif::device
