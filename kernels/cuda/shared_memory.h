// A block's dynamic shared memory, taken piece by piece. Every thread takes the same pieces in the
// same order. The launch states their total size (shared_bytes).
//
// (Kernels have no other shared memory, so that tests/simt can guard each piece when kernels run on
// the CPU: it has a header of this name.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace itif::kernels::cuda {

class SharedMemory {
 public:
  template <class T>
  __device__ T* take(uint32_t count) {
    extern __shared__ __align__(16) unsigned char itif_shared_memory[];
    T* piece = reinterpret_cast<T*>(itif_shared_memory + taken_);
    taken_ += (count * static_cast<uint32_t>(sizeof(T)) + 15) / 16 * 16;
    return piece;
  }

 private:
  uint32_t taken_ = 0;
};

// The dynamic shared memory that a launch may use if its kernel's limit was not raised. A kernel's
// limit holds for all threads and streams, and the next call may lower it. Set it once, never by
// the needs of one launch.
inline constexpr size_t kSharedUnlessAllowed = 48 << 10;

// Bytes of a piece within a launch's shared_bytes.
template <class T>
constexpr size_t shared_bytes(size_t count) {
  return (count * sizeof(T) + 15) / 16 * 16;
}

}  // namespace itif::kernels::cuda
