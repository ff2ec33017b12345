#include "tensor/tensor_view.h"

#include <cstring>

#include "base/check.h"

namespace itif {

Shape::Shape(std::initializer_list<uint64_t> sizes) {
  CHECK(sizes.size() <= kMaxRank);
  for (uint64_t size : sizes) dims[static_cast<size_t>(rank++)] = size;
}

uint64_t Shape::elements() const {
  uint64_t product = 1;
  for (int i = 0; i < rank; ++i) product *= dims[static_cast<size_t>(i)];
  return product;
}

std::string Shape::text() const {
  std::string out = "[";
  for (int i = 0; i < rank; ++i) {
    if (i) out += ", ";
    out += std::to_string(dims[static_cast<size_t>(i)]);
  }
  return out + "]";
}

float TensorView::at(uint64_t i) const {
  // memcpy because safetensors data may be unaligned.
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, data + i * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, data + i * 2, 2);
  CHECK(dtype == DType::kBF16 || dtype == DType::kF16);
  return dtype == DType::kBF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

void TensorView::to_f32(float* out) const {
  const uint64_t n = shape.elements();
  if (dtype == DType::kF32) {
    if (n) std::memcpy(out, data, n * 4);
    return;
  }
  for (uint64_t i = 0; i < n; ++i) out[i] = at(i);
}

}  // namespace itif
