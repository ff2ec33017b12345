// Device memory of buffers and slabs, and pinned host memory. The serving path allocates none of
// it.
//
// Slabs reserve addresses for all slots and commit memory in pieces (virtual_memory.h). The end of
// a slot and the start of the next may be in one piece, which stays committed while any of them is.
// Slots of whole pieces can share memory, also slots of different slabs: their pieces are then
// mapped at both addresses.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "device/cuda/driver/error.h"
#include "device/cuda/memory/transfers.h"
#include "device/device.h"

namespace itif::device::cuda {

class VirtualMemory;

// Free memory of the device, counting the use of all processes; 0: it does not answer.
size_t free_bytes();

// Limits the memory of a device, and allocates it. Thread-safe.
class Budget {
 public:
  explicit Budget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  // Errors: kResourceExhausted.
  Status take(size_t bytes, const char* what);
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  void give_back(size_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Bytes that take() grants now and the device has free.
  size_t available_bytes() const;
  size_t limit_bytes() const { return limit_bytes_.load(std::memory_order_relaxed); }
  // Returns the bytes by which the limit has risen; 0: it is not lower than `bytes`.
  size_t raise_limit(size_t bytes);
  Transfers& transfers() { return transfers_; }

 private:
  std::atomic<size_t> limit_bytes_;
  std::atomic<size_t> used_bytes_{0};
  Transfers transfers_;
};

// Waits for a memset or copy on the default stream, which returned `started`. It may run after its
// call returns, and our streams do not wait for the default stream. Errors: kInternal.
Status finish_write(cudaError_t started, const char* what);

// Copies `source` to device memory as `type`. Errors: kInvalidArgument (not a floating type),
// kInternal.
Status upload_floats(Transfers& transfers, const TensorView& source, DType type, void* target);

// Zeroed, 256-byte aligned. Errors: kResourceExhausted.
Result<std::unique_ptr<Buffer>> allocate_buffer(std::shared_ptr<Budget> budget, size_t bytes);
// Zeroed slots at 256-byte multiples, or of whole pieces if that adds little. Errors:
// kResourceExhausted.
Result<std::unique_ptr<SlabMemory>> reserve_slab(std::shared_ptr<Budget> budget,
                                                 std::shared_ptr<VirtualMemory> memory,
                                                 size_t slot_bytes, uint32_t max_slots);

// Pinned host memory for asynchronous copies to and from the device. Move-only.
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
