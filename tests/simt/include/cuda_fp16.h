// Replaces the CUDA toolkit's header of this name: half precision as storage, and its conversions.
#pragma once

#include <bit>
#include <cstdint>

struct alignas(2) __half {
  uint16_t bits;
};

inline float __half2float(__half value) {
  return static_cast<float>(std::bit_cast<_Float16>(value.bits));
}
// Rounds to nearest, ties to even.
inline __half __float2half_rn(float value) {
  return {std::bit_cast<uint16_t>(static_cast<_Float16>(value))};
}
