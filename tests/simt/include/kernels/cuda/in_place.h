// Replaces the header of this name in kernels/cuda. It refuses memory that is not registered with
// the GPU, and reads outside the piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simt.h"

namespace itif::kernels::cuda {

inline constexpr uint32_t kBusLine = 128, kBusWord = 4;

class InPlace {
 public:
  InPlace(const std::byte* data, uint32_t bytes) : data_(data), bytes_(bytes) {
    simt::check_host_read(data, bytes);
  }

  uint32_t in_line(uint32_t offset) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data_) + offset) % kBusLine;
  }
  template <class T>
  T at(uint32_t offset) const {
    check(offset, sizeof(T));
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }
  void bring_word(uint32_t offset, void* shared) const {
    check(offset, kBusWord);
    if (reinterpret_cast<uintptr_t>(shared) % kBusWord != 0)
      simt::fail("cp.async: an address is not aligned");
    simt::copy_async(shared, kBusWord, data_ + offset, kBusWord);
  }

 private:
  void check(uint32_t offset, size_t bytes) const {
    if (offset > bytes_ || bytes_ - offset < bytes) simt::fail("a read outside a piece");
    if ((reinterpret_cast<uintptr_t>(data_) + offset) % bytes != 0)
      simt::fail("a read of host memory that is not aligned");
  }

  const std::byte* data_;
  uint32_t bytes_;
};

inline void wait_for_words() {
  simt::commit_copies();
  simt::wait_for_copies(0);
}

}  // namespace itif::kernels::cuda
