// Numbers whose products tests can compare exactly.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace itif::device {

// Whole numbers from -50 to 50, others for each seed. Sums of their products are exact in f32,
// whatever the order.
inline std::vector<float> numbers(size_t count, uint32_t seed = 0) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<float>((i * 37 + seed * 11) % 101) - 50;
  return all;
}
inline void upload(Device& device, void* target, const std::vector<float>& values) {
  const TensorView view{reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
                        Shape{values.size()}};
  ASSERT_TRUE(device.upload(view, DType::kF32, target));
}
inline void upload_numbers(Device& device, void* target, size_t count, uint32_t seed = 0) {
  upload(device, target, numbers(count, seed));
}

}  // namespace itif::device
