// Device memory that GEMMs read in place of weights when they run before there are tenants. All
// streams of a device share it.
#pragma once

#include <memory>
#include <mutex>

#include "device/cuda/memory/memory.h"

namespace itif::device::cuda {

// Thread-safe.
class ScratchWeights {
 public:
  explicit ScratchWeights(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  // Returns zeros of `bytes` or more. They are freed with their last user. Errors:
  // kResourceExhausted.
  Result<std::shared_ptr<const Buffer>> at_least(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (auto there = largest_.lock(); there != nullptr && there->bytes() >= bytes) return there;
    ITIF_ASSIGN(std::shared_ptr<const Buffer> made, allocate_buffer(budget_, bytes));
    largest_ = made;
    return made;
  }

 private:
  const std::shared_ptr<Budget> budget_;
  std::mutex mutex_;
  std::weak_ptr<const Buffer> largest_;
};

}  // namespace itif::device::cuda
