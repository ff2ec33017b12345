// Replaces the header of this name in kernels/cuda. Results have the largest error of the GPU's
// instructions, so that no test needs more accuracy than a GPU gives.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace itif::kernels::cuda {

inline float exp2_approximately(float x) {
  constexpr float kError = 0x1p-22f;
  if (std::fabs(x) < FLT_MIN) x = 0;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const float power = std::exp2(x) * (1 + (bits & 1 ? kError : -kError));
  return power < FLT_MIN ? 0 : power;
}

inline float reciprocal_approximately(float x) {
  constexpr float kError = 0x1p-23f;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return 1.0f / x * (1 + (bits & 1 ? kError : -kError));
}

}  // namespace itif::kernels::cuda
