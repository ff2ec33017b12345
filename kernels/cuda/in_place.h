// A piece of host memory that a kernel reads in place. It is a class so that tests/simt can detect
// reads that a GPU could not or should not make: its header of this name is found first there.
//
// The bus moves lines of 128 bytes. A warp requests a whole line if its lanes read the line's
// words. Pieces begin anywhere in a line, but reads begin at the start of the line; lanes before
// the piece stay idle.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace itif::kernels::cuda {

inline constexpr uint32_t kBusLine = 128, kBusWord = 4;

class InPlace {
 public:
  __device__ InPlace(const std::byte* data, uint32_t) : data_(data) {}

  // Returns the position of byte `offset` within its line.
  __device__ uint32_t in_line(uint32_t offset) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data_ + offset)) % kBusLine;
  }
  // REQUIRES: aligned. (nvcc cannot infer that an address from a plan is in global memory: __ldg
  // says so.)
  template <class T>
  __device__ T at(uint32_t offset) const {
    return __ldg(reinterpret_cast<const T*>(data_ + offset));
  }
  // Starts copying a word to shared memory; both are aligned. It has arrived after
  // wait_for_words().
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
