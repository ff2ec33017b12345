// Reserves device memory for models that are being loaded, and counts what they have not allocated
// yet. So two loads that fit alone, but not together, do not both begin.
//
// The groups of a device have one object. Any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <expected>
#include <mutex>
#include <utility>

#include "device/device.h"

namespace itif::runtime {

class LoadMemory {
 public:
  // The bytes that one load still needs. Gives them back at its end. Move-only.
  class Hold {
   public:
    Hold(Hold&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (memory_ != nullptr) reduce(bytes_);
    }
    // Gives back bytes that the load has allocated on the device.
    void reduce(uint64_t bytes) noexcept {
      const std::lock_guard lock(memory_->mutex_);
      bytes = std::min(bytes, bytes_);
      bytes_ -= bytes;
      memory_->held_bytes_ -= bytes;
    }

   private:
    friend class LoadMemory;
    Hold(LoadMemory& memory, uint64_t bytes) noexcept : memory_(&memory), bytes_(bytes) {}
    LoadMemory* memory_;
    uint64_t bytes_;
  };

  // Holds `bytes` for a load. On failure returns the number of bytes that are left.
  std::expected<Hold, uint64_t> hold(const device::Device& device, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const uint64_t available_bytes = device.available_bytes();
    const uint64_t left_bytes = available_bytes - std::min(available_bytes, held_bytes_);
    if (bytes > left_bytes) return std::unexpected(left_bytes);
    held_bytes_ += bytes;
    return Hold(*this, bytes);
  }

 private:
  std::mutex mutex_;
  uint64_t held_bytes_ = 0;  // guarded by mutex_
};

}  // namespace itif::runtime
