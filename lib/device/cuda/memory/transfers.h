// Allocates, frees, fills and copies device memory for control threads, without disturbing the
// streams that serve: in the order of a stream of its own, from the device's memory pool, and
// through pinned memory. cudaMalloc(), cudaFree(), and copies of pageable memory may make the whole
// device wait.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <mutex>
#include <span>

#include "device/cuda/driver/error.h"

namespace itif::device::cuda {

// A device has one. Thread-safe. Opened by its first call.
class Transfers {
 public:
  Transfers() = default;
  ~Transfers() { close(); }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Makes the stream and the pinned memory. Errors: kResourceExhausted, kInternal.
  Status open();
  // Call before a device reset.
  void close() noexcept;

  // Returns zeroed memory, 256-byte aligned. Errors: kResourceExhausted, kInternal.
  Result<void*> allocate(size_t bytes);
  // REQUIRES: no launch in flight uses the memory, which is of allocate().
  void free(void* memory) noexcept;
  // Each waits until it is done. Errors: kInternal. `what`: as check().
  Status fill(void* memory, int value, size_t bytes, const char* what);
  Status to_device(std::span<const std::byte> source, void* target, const char* what);
  Status to_host(const void* source, std::span<std::byte> target, const char* what);

 private:
  // Pinned memory of one part of a copy.
  struct Stage {
    std::byte* data = nullptr;
    cudaEvent_t copied = nullptr;
  };
  static constexpr size_t kStageBytes = size_t{2} << 20;

  // The functions below: REQUIRE mutex_.
  Status open_locked();
  Status wait(const char* what);

  std::mutex mutex_;
  int ordinal_ = 0;  // the GPU that was current when the first call was made
  cudaStream_t stream_ = nullptr;
  bool has_pool_ = false;
  std::array<Stage, 2> stages_;
};

}  // namespace itif::device::cuda
