// Activation types on the GPU: conversions to and from f32, the type of all arithmetic, and memory
// access in packs of 16 bytes, the most that one instruction moves.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace itif::kernels::cuda {

using Bf16 = __nv_bfloat16;
using Half = __half;

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(Bf16 value) {
  return __bfloat162float(value);
}
__device__ inline float to_float(Half value) {
  return __half2float(value);
}
// Rounds to nearest, ties to even.
template <class T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline Bf16 from_float<Bf16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline Half from_float<Half>(float value) {
  return __float2half_rn(value);
}

// Sixteen bytes of a row. REQUIRES: memory accessed as packs is 16-byte aligned.
template <class T>
struct alignas(16) Pack {
  static constexpr uint32_t kWidth = 16 / sizeof(T);
  T values[kWidth];
};
template <class T>
__device__ const Pack<T>& pack_at(const T* row, uint32_t pack) {
  return reinterpret_cast<const Pack<T>*>(row)[pack];
}
template <class T>
__device__ Pack<T>& pack_at(T* row, uint32_t pack) {
  return reinterpret_cast<Pack<T>*>(row)[pack];
}
// Returns whether all rows of `width` values are aligned for packs if the first is.
template <class T>
constexpr bool is_packed(uint32_t width) {
  return width % Pack<T>::kWidth == 0;
}

// kWidth values, moved by one instruction; the f32 counterpart of a 16-bit pack takes two.
template <class T, uint32_t kWidth>
struct alignas(kWidth * sizeof(T) > 16 ? 16 : kWidth * sizeof(T)) Values {
  T values[kWidth];
};
template <uint32_t kWidth, class T>
__device__ Values<T, kWidth> values_at(const T* at) {
  return *reinterpret_cast<const Values<T, kWidth>*>(at);
}
template <class T, uint32_t kWidth>
__device__ void store_at(T* at, const Values<T, kWidth>& values) {
  *reinterpret_cast<Values<T, kWidth>*>(at) = values;
}

// Calls body.operator()<T>() with the C++ type of `type`. REQUIRES: f32, bf16 or f16.
template <class Body>
void with_activation(DType type, const Body& body) {
  switch (type) {
    case DType::kBF16: return body.template operator()<Bf16>();
    case DType::kF16: return body.template operator()<Half>();
    default: return body.template operator()<float>();
  }
}

}  // namespace itif::kernels::cuda
