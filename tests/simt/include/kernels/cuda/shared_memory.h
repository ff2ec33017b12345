// Replaces the header of this name in kernels/cuda: each piece is a separate allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simt.h"

namespace itif::kernels::cuda {

class SharedMemory {
 public:
  template <class T>
  T* take(uint32_t count) {
    return static_cast<T*>(simt::take_shared(count * sizeof(T), 16));
  }
};

inline constexpr size_t kSharedUnlessAllowed = 48 << 10;

template <class T>
constexpr size_t shared_bytes(size_t count) {
  return (count * sizeof(T) + 15) / 16 * 16;
}

}  // namespace itif::kernels::cuda
