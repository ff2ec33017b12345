// What a stream keeps of the launches between two events.
#pragma once

#include <optional>
#include <utility>

#include "device/cuda/error.h"
#include "device/cuda/event.h"
#include "device/cuda/host_memory.h"
#include "device/cuda/plan_memory.h"
#include "device/cuda/results.h"
#include "device/device.h"

namespace itif::device::cuda {

struct Work {
  PlanMemory plan;
  std::optional<HostReads> reads;
  std::optional<Results> results;
  StreamEvent begin, inputs_read, end;
  bool has_begun = false;         // something was launched behind the event
  bool says_inputs_read = false;  // or the end does
  Status status;

  Status make_events() {
    ITIF_ASSIGN(begin, StreamEvent::make(cudaEventDefault));
    // Blocking: whoever waits sleeps, and leaves its CPU to others.
    ITIF_ASSIGN(end, StreamEvent::make(cudaEventBlockingSync));
    ITIF_ASSIGN(inputs_read, StreamEvent::make(cudaEventDisableTiming));
    return {};
  }
  // Ahead of launches; of the first alone it is said when they begin. On a device that still runs another batch that is
  // when this one's turn has come, on an idle one at once: then what the host takes to make them counts.
  cudaError_t say_begun(cudaStream_t stream) {
    if (has_begun) return cudaSuccess;
    const cudaError_t recorded = begin.record(stream);
    has_begun = recorded == cudaSuccess;
    return recorded;
  }

  cudaError_t say_inputs_read(cudaStream_t stream) {
    const cudaError_t recorded = inputs_read.record(stream);
    says_inputs_read = recorded == cudaSuccess;
    return recorded;
  }
  // Waits for its end; then nothing is in it.
  Stream::Completion finish() {
    Stream::Completion completion{.status = std::move(status)};
    Status came = check(end.wait(), "the GPU failed a batch");
    // What a batch was refused is not to be taken for a failure of the next one.
    const cudaError_t last = cudaGetLastError();
    if (completion.status && came) came = check(last, "the GPU failed a batch");
    if (completion.status && !came) completion.status = std::move(came);
    if (completion.status && has_begun) completion.device_ns = end.since(begin);
    if (completion.status) results->deliver();
    results->clear();
    plan.clear();
    reads->clear();
    has_begun = says_inputs_read = false;
    return completion;
  }
};

}  // namespace itif::device::cuda
