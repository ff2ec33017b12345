// A piece of host memory that a kernel reads where it stands. A name for it, so that tests/simt, whose header of this
// name comes first there, can tell what a GPU could not read or should not.
//
// The bus is read by lines of 128 bytes, which a warp asks for at once where its lanes read a line's words: pieces
// begin anywhere in a line, and reads begin where the line does, with the lanes ahead of the piece left out.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace itif::kernels::cuda {

inline constexpr uint32_t kBusLine = 128, kBusWord = 4;

class InPlace {
 public:
  __device__ InPlace(const std::byte* data, uint32_t) : data_(data) {}

  // How far behind the beginning of a line byte `offset` stands.
  __device__ uint32_t in_line(uint32_t offset) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data_ + offset)) % kBusLine;
  }
  // REQUIRES: aligned. (From an address in a plan nvcc cannot tell that it is one of global memory.)
  template <class T>
  __device__ T at(uint32_t offset) const {
    return __ldg(reinterpret_cast<const T*>(data_ + offset));
  }
  // Brings a word to shared memory, both aligned: it is there when the thread has waited for what it brings.
  __device__ void bring_word(uint32_t offset, void* shared) const {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(data_ + offset));
  }

 private:
  const std::byte* data_;
};

__device__ inline void wait_for_words() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace itif::kernels::cuda
