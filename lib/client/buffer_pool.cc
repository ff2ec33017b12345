#include "client/buffer_pool.h"

#include <bit>
#include <cstdlib>

namespace itif::client {

BufferPool::~BufferPool() {
  trim();
}

BufferPool::Buffer BufferPool::acquire(size_t bytes) noexcept {
  const unsigned shift = bytes <= size_t{1} << kMinShift
                             ? kMinShift
                             : static_cast<unsigned>(std::bit_width(bytes - 1));
  const bool pooled = shift <= kMaxShift;
  if (pooled && free_[shift - kMinShift] != nullptr) {
    Free* taken = free_[shift - kMinShift];
    free_[shift - kMinShift] = taken->next;
    return {reinterpret_cast<std::byte*>(taken), size_t{1} << shift};
  }
  const size_t size = pooled ? size_t{1} << shift : bytes;
  if (held_bytes_ + size > max_bytes_) trim();
  if (held_bytes_ + size > max_bytes_) return {};
  void* data = std::malloc(size);
  if (data == nullptr) return {};
  held_bytes_ += size;
  return {static_cast<std::byte*>(data), size};
}

void BufferPool::release(Buffer& buffer) noexcept {
  if (buffer.data == nullptr) return;
  if (buffer.bytes <= size_t{1} << kMaxShift) {
    const auto index = static_cast<unsigned>(std::countr_zero(buffer.bytes)) - kMinShift;
    auto* freed = reinterpret_cast<Free*>(buffer.data);
    freed->next = free_[index];
    free_[index] = freed;
  } else {
    held_bytes_ -= buffer.bytes;
    std::free(buffer.data);
  }
  buffer = {};
}

void BufferPool::trim() noexcept {
  for (unsigned i = 0; i < free_.size(); ++i) {
    while (free_[i] != nullptr) {
      Free* next = free_[i]->next;
      std::free(free_[i]);
      free_[i] = next;
      held_bytes_ -= uint64_t{1} << (i + kMinShift);
    }
  }
}

}  // namespace itif::client
