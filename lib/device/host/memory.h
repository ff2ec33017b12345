// Host memory of buffers and slabs: anonymous mappings, counted against what the machine has, so that
// running short is an error at admission and not the kernel's out-of-memory killer later.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "device/device.h"

namespace itif::device {

// What a device may occupy. Thread-safe. Memory is populated as it is granted, so that the system's own
// figure of what is available includes it from then on.
class MemoryBudget {
 public:
  // limit_bytes 0: no limit but the system's.
  explicit MemoryBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Errors: kResourceExhausted, naming `what` and both figures.
  Status take(size_t bytes, const char* what);
  void give_back(size_t bytes);
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  // What could be taken now.
  size_t available_bytes() const;

 private:
  const size_t limit_bytes_;
  std::atomic<size_t> used_bytes_{0};
};

// Bytes that new pages may take without swapping: MemAvailable, and the limits of the control group.
size_t available_system_bytes();

// Addresses whose pages exist from their first use on: scratch for the worst case of which a batch
// uses a small part. Move-only.
class LazyMapping {
 public:
  // Errors: kResourceExhausted.
  static Result<LazyMapping> reserve(size_t bytes);
  LazyMapping() = default;
  LazyMapping(LazyMapping&& other) noexcept;
  LazyMapping& operator=(LazyMapping&& other) noexcept;
  ~LazyMapping();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Zeroed, 64-byte aligned (a page), backed by huge pages where they help. Errors: kResourceExhausted.
Result<std::unique_ptr<Buffer>> allocate_host_buffer(std::shared_ptr<MemoryBudget> budget,
                                                     size_t bytes);
// Slots of slot_bytes rounded up to whole pages. Errors: kResourceExhausted.
Result<std::unique_ptr<SlabMemory>> reserve_host_slab(std::shared_ptr<MemoryBudget> budget,
                                                      size_t slot_bytes, uint32_t max_slots);

}  // namespace itif::device
