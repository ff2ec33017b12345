// Host memory that kernels read in place. Packet memory is registered once at start. Other data (a
// tokenizer's ids, a resized picture) is copied to pinned memory first.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "device/cuda/memory/memory.h"

namespace itif::device::cuda {

// Thread-safe.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // Registers whole pages; skips registered ones. Errors: kResourceExhausted, kInternal.
  Status add(const void* data, size_t bytes);
  // Registers all ranges again after a device reset. Ranges that the device refuses are copied from
  // then on.
  void add_again();
  bool holds(const void* data, size_t bytes) const;

 private:
  static Status enter(uintptr_t begin, uintptr_t end);

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, uintptr_t> ranges_;  // begin to end; no two overlap
};

// The host memory that a batch's kernels read, until the batch has ended. One thread.
class HostReads {
 public:
  // Allocates pinned memory for unregistered_bytes of copies. Errors: kResourceExhausted.
  static Result<HostReads> make(const RegisteredMemory& registered, size_t unregistered_bytes);
  // Returns the address where kernels read these bytes: `data` if it is registered, else that of a
  // copy. A copy is 16-byte aligned, at least as well as packet pieces are. nullptr: no pinned
  // memory.
  const std::byte* readable(const std::byte* data, size_t bytes);
  // REQUIRES: kernels no longer read the memory.
  void clear() noexcept;

 private:
  explicit HostReads(const RegisteredMemory& registered) : registered_(&registered) {}

  const RegisteredMemory* registered_;
  std::vector<Pinned> chunks_;  // kept from batch to batch
  size_t chunk_ = 0, used_ = 0;
};

}  // namespace itif::device::cuda
