// Writes a safetensors file. Values are generated while they are written, so that a large model
// needs little memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"

namespace itif::mkmodel {

struct TensorToWrite {
  std::string name;
  std::vector<uint64_t> dims;
  std::function<float()> next;  // called once per element, in row-major order
};

// REQUIRES: type is kF32, kF16 or kBF16. Errors: kResourceExhausted, kPermission (with the path).
Status write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                         DType type);

}  // namespace itif::mkmodel
