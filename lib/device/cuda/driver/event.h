// A CUDA event: a point in a stream's order that the host polls or waits for.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "device/cuda/driver/error.h"

namespace itif::device::cuda {

class StreamEvent {
 public:
  // `flags`: of cudaEventCreateWithFlags(). Errors: kResourceExhausted, kInternal.
  static Result<StreamEvent> make(unsigned flags) {
    StreamEvent made;
    ITIF_TRY(check(cudaEventCreateWithFlags(&made.event_, flags), "cannot make an event"));
    return made;
  }
  StreamEvent() = default;
  StreamEvent(StreamEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  StreamEvent& operator=(StreamEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~StreamEvent() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }

  cudaEvent_t get() const { return event_; }
  cudaError_t record(cudaStream_t stream) const { return cudaEventRecord(event_, stream); }
  // Returns true if wait() would not block.
  bool has_come() const noexcept {
    if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
    (void)cudaGetLastError();  // clears cudaErrorNotReady, which counts as the thread's error
    return false;
  }
  cudaError_t wait() const noexcept { return cudaEventSynchronize(event_); }
  // Returns the device time from `begin` to this event in ns, at least 1; 0: not measured.
  // REQUIRES: both events have timing and are complete.
  uint64_t since(const StreamEvent& begin) const noexcept {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, begin.event_, event_) == cudaSuccess)
      return std::max<uint64_t>(1, std::llround(1e6 * double{ms}));
    (void)cudaGetLastError();  // a missing figure does not fail the batch
    return 0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace itif::device::cuda
