// Memory for responses of several datagrams: bounded in total, and pooled by size so that a steady
// load allocates nothing. One owner thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace itif::client {

class BufferPool {
 public:
  struct Buffer {
    std::byte* data = nullptr;  // nullptr: no buffer
    size_t bytes = 0;           // at least the requested size
  };

  // max_bytes: limit of buffers in use and kept for reuse, together.
  explicit BufferPool(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns a 16-byte aligned buffer with undefined contents. Its data is nullptr if max_bytes or
  // the system's memory is exhausted.
  Buffer acquire(size_t bytes) noexcept;
  // Takes back a buffer and sets `buffer` to none. Does nothing if it has no data.
  void release(Buffer& buffer) noexcept;
  uint64_t held_bytes() const noexcept { return held_bytes_; }

 private:
  // Free buffers of one size form a list linked through their first bytes. Buffers larger than
  // 2^kMaxShift bytes are not kept: release() frees them.
  static constexpr unsigned kMinShift = 12;
  static constexpr unsigned kMaxShift = 20;
  struct Free {
    Free* next;
  };

  void trim() noexcept;

  uint64_t max_bytes_;
  uint64_t held_bytes_ = 0;  // in use and kept
  std::array<Free*, kMaxShift - kMinShift + 1> free_{};
};

}  // namespace itif::client
