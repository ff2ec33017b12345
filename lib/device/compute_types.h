// Reads DeviceOptions::dtype.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"

namespace itif::device {

// The names of kComputeTypes: "f32", "bf16", ….
std::vector<std::string> compute_names();
// Returns the types that `dtype` names, and `automatic` for "auto". Errors: kInvalidArgument,
// listing the names.
Result<ComputeTypes> read_compute_types(const std::string& dtype, const ComputeTypes& automatic);

}  // namespace itif::device
