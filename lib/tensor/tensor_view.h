// A borrowed, contiguous, row-major tensor: pointer, element type, shape. Owns nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "tensor/dtype.h"

namespace itif {

// At most four dimensions; a scalar has rank 0.
struct Shape {
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<uint64_t> sizes);

  int rank = 0;
  std::array<uint64_t, kMaxRank> dims{};

  uint64_t elements() const;
  uint64_t operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  bool operator==(const Shape&) const = default;
  std::string text() const;  // "[30522, 768]"
};

struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  size_t bytes() const { return shape.elements() * dtype_bytes(dtype); }
  // Element i as f32. REQUIRES: a floating-point dtype.
  float at(uint64_t i) const;
  // Writes all elements as f32 to out[0, elements). REQUIRES: a floating-point dtype.
  void to_f32(float* out) const;
};

}  // namespace itif
