// A place in a stream's order that the host asks about or waits for.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "device/cuda/error.h"

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

  cudaError_t record(cudaStream_t stream) { return cudaEventRecord(event_, stream); }
  // Whether wait() would not.
  bool has_come() const noexcept {
    if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
    (void)cudaGetLastError();  // which remembers this as a failure of the thread's
    return false;
  }
  cudaError_t wait() const noexcept { return cudaEventSynchronize(event_); }
  // The device's time from `begin` to this one, ns, at least 1; 0: it does not say. REQUIRES: both were made with timing
  // and have come.
  uint64_t since(const StreamEvent& begin) const noexcept {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, begin.event_, event_) == cudaSuccess)
      return std::max<uint64_t>(1, std::llround(1e6 * double{ms}));
    (void)cudaGetLastError();  // a figure that is lacking is no failure of the batch
    return 0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace itif::device::cuda
