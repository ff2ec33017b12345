// Device memory of buffers and slabs, and pinned host memory. All of it is had while nothing is served: on the
// serving path nothing is allocated.
//
// Slabs reserve addresses for all slots and commit memory in pieces (virtual_memory.h), of which a
// slot may need a part and several slots one: a piece is there while any slot in it is.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "device/cuda/error.h"
#include "device/device.h"

namespace itif::device::cuda {

class VirtualMemory;

// Of the device, whoever has the rest; 0: it does not answer.
size_t free_bytes();

// What a device may occupy. Thread-safe.
class Budget {
 public:
  explicit Budget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  // Errors: kResourceExhausted.
  Status take(size_t bytes, const char* what);
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  void give_back(size_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // What could be taken now, of what the device has free.
  size_t available_bytes() const;

 private:
  const size_t limit_bytes_;
  std::atomic<size_t> used_bytes_{0};
};

// What a memset or a copy on the default stream has `started` may be made after it returns, and no stream of ours waits
// for that one: returns when it is there. Errors: kInternal.
Status finish_write(cudaError_t started, const char* what);

// Zeroed, 256-byte aligned. Errors: kResourceExhausted.
Result<std::unique_ptr<Buffer>> allocate_buffer(std::shared_ptr<Budget> budget, size_t bytes);
// Zeroed slots at 256-byte multiples. Errors: kResourceExhausted.
Result<std::unique_ptr<SlabMemory>> reserve_slab(std::shared_ptr<Budget> budget,
                                                 std::shared_ptr<VirtualMemory> memory,
                                                 size_t slot_bytes, uint32_t max_slots);

// Host memory that the device copies from and to while the host goes on. Move-only.
class Pinned {
 public:
  // Errors: kResourceExhausted.
  static Result<Pinned> allocate(size_t bytes);
  Pinned() = default;
  Pinned(Pinned&& other) noexcept;
  Pinned& operator=(Pinned&& other) noexcept;
  ~Pinned();
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace itif::device::cuda
