// A block's dynamic shared memory, piece by piece. Every thread takes the same pieces in the same order; the
// launch says how many bytes they are together (shared_bytes).
//
// (Kernels have no other shared memory, so that each piece can be given guards of its own where kernels run on
// the CPU: tests/simt has a header of this name.)
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

// What a launch may take of a kernel that was not allowed more. What one is allowed is one figure for all threads and
// streams, which the next call also lowers: it is set once, and never by what a launch happens to need.
inline constexpr size_t kSharedUnlessAllowed = 48 << 10;

// What a piece counts in a launch's shared_bytes.
template <class T>
constexpr size_t shared_bytes(size_t count) {
  return (count * sizeof(T) + 15) / 16 * 16;
}

}  // namespace itif::kernels::cuda
