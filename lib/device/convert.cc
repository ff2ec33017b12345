#include "device/convert.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace itif::device {

void convert_floats(const TensorView& source, DType type, std::byte* target) {
  CHECK(type == DType::kF32 || type == DType::kBF16 || type == DType::kF16);
  if (source.bytes() == 0) return;
  if (source.dtype == type) {
    std::memcpy(target, source.data, source.bytes());
    return;
  }
  if (type == DType::kF32) {
    source.to_f32(reinterpret_cast<float*>(target));
    return;
  }
  std::array<float, 1024> block;
  const uint64_t elements = source.shape.elements();
  auto* to = reinterpret_cast<uint16_t*>(target);
  for (uint64_t i = 0; i < elements; i += block.size()) {
    const uint64_t count = std::min<uint64_t>(block.size(), elements - i);
    const TensorView part{source.data + i * dtype_bytes(source.dtype), source.dtype, Shape{count}};
    part.to_f32(block.data());
    for (uint64_t j = 0; j < count; ++j)
      to[i + j] = type == DType::kBF16 ? f32_to_bf16(block[j]) : f32_to_f16(block[j]);
  }
}

}  // namespace itif::device
