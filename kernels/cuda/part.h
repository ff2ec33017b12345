// Adjacent values that one instruction moves: a pack, or fewer if a row does not consist of packs.
#pragma once

#include "kernels/cuda/number.h"

namespace itif::kernels::cuda {

template <class T, uint32_t kWidth>
struct alignas(kWidth * sizeof(T)) Part {
  T values[kWidth];
};
template <uint32_t kWidth, class T>
__device__ Part<T, kWidth> load_part(const T* from) {
  return *reinterpret_cast<const Part<T, kWidth>*>(from);
}

}  // namespace itif::kernels::cuda
