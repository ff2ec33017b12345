// Host memory of buffers and slabs: anonymous mappings, counted against the machine's memory. A
// shortage is therefore an error at admission, and the kernel's out-of-memory killer does not
// strike later.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "device/device.h"

namespace itif::device {

// Limits the memory of a device. Thread-safe. Memory is populated when it is granted; the system's
// figure of available memory is lower from then on.
class MemoryBudget {
 public:
  // limit_bytes 0: only the system's limit.
  explicit MemoryBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Errors: kResourceExhausted, naming `what` and both figures.
  Status take(size_t bytes, const char* what);
  void give_back(size_t bytes);
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  // Bytes that take() grants now.
  size_t available_bytes() const;

 private:
  const size_t limit_bytes_;
  std::atomic<size_t> used_bytes_{0};
};

// Bytes that new pages may take without swapping, by MemAvailable and the control groups' limits.
size_t available_system_bytes();

// Addresses whose pages are allocated on first use: worst-case scratch, of which a batch uses a
// small part. Move-only.
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

// Zeroed, page-aligned, backed by huge pages where they help. Errors: kResourceExhausted.
Result<std::unique_ptr<Buffer>> allocate_host_buffer(std::shared_ptr<MemoryBudget> budget,
                                                     size_t bytes);
// Slots of slot_bytes rounded up to whole pages. Errors: kResourceExhausted.
Result<std::unique_ptr<SlabMemory>> reserve_host_slab(std::shared_ptr<MemoryBudget> budget,
                                                      size_t slot_bytes, uint32_t max_slots);

}  // namespace itif::device
