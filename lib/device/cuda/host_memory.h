// Host memory that kernels read in place: the packets' memory, registered once at start, and what stands
// elsewhere (a tokenizer's ids, a resized picture), copied to pinned memory first.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "device/cuda/memory.h"

namespace itif::device::cuda {

// Thread-safe.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // By whole pages; those that are registered already stay so. Errors: kResourceExhausted, kInternal.
  Status add(const void* data, size_t bytes);
  // After the device was reset, which has forgotten them. What it now refuses is copied from here on.
  void add_again();
  bool holds(const void* data, size_t bytes) const;

 private:
  static Status enter(uintptr_t begin, uintptr_t end);

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, uintptr_t> ranges_;  // begin to end, apart or adjacent
};

// What a batch's kernels read of the host, until the batch has ended. One thread.
class HostReads {
 public:
  // With pinned memory for so many bytes that are not registered. Errors: kResourceExhausted.
  static Result<HostReads> make(const RegisteredMemory& registered, size_t unregistered_bytes);
  // Where kernels read these bytes: where they are, or where they have been copied to, 16-byte aligned like the
  // pieces of packets are or better. nullptr: there is no pinned memory.
  const std::byte* readable(const std::byte* data, size_t bytes);
  // REQUIRES: what was made readable has been read.
  void clear() noexcept;

 private:
  explicit HostReads(const RegisteredMemory& registered) : registered_(&registered) {}

  const RegisteredMemory* registered_;
  std::vector<Pinned> chunks_;  // kept from batch to batch
  size_t chunk_ = 0, used_ = 0;
};

}  // namespace itif::device::cuda
