// Memory for responses of several datagrams: bounded in total, pooled by size so that a steady load
// allocates nothing. One owner thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace itif::client {

class BufferPool {
 public:
  struct Buffer {
    std::byte* data = nullptr;  // nullptr: no buffer
    size_t bytes = 0;           // at least what was asked for
  };

  // max_bytes: of buffers handed out and kept for reuse together.
  explicit BufferPool(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer without data if max_bytes or the system's memory is used up. Contents are undefined;
  // 16-byte aligned.
  Buffer acquire(size_t bytes) noexcept;
  // Takes a buffer back and clears it. Nothing happens if it is none.
  void release(Buffer& buffer) noexcept;
  uint64_t held_bytes() const noexcept { return held_bytes_; }

 private:
  // Kept buffers of one size are a list through their first bytes. Larger ones go back at once.
  static constexpr unsigned kMinShift = 12;
  static constexpr unsigned kMaxShift = 20;
  struct Free {
    Free* next;
  };

  void trim() noexcept;

  uint64_t max_bytes_;
  uint64_t held_bytes_ = 0;  // handed out and kept
  std::array<Free*, kMaxShift - kMinShift + 1> free_{};
};

}  // namespace itif::client
