// State of a stream for the launches between two events.
#pragma once

#include <optional>
#include <utility>

#include "device/cuda/driver/error.h"
#include "device/cuda/graph/results.h"
#include "device/cuda/memory/host_memory.h"
#include "device/cuda/memory/plan_memory.h"
#include "device/cuda/stream_context.h"
#include "device/device.h"

namespace itif::device::cuda {

struct Work {
  PlanMemory plan;
  std::optional<HostReads> reads;
  std::optional<Results> results;
  const WorkEvents* events = nullptr;  // of the context in which the launches run
  bool has_begun = false;              // `begin` is recorded
  bool has_inputs_read = false;        // `inputs_read` is recorded; false: use `end`
  Status status;

  // Records `begin` ahead of the first launches. A busy device reaches it after the previous batch.
  // An idle device reaches it immediately, so that the measured time includes the host's launching.
  cudaError_t record_begin(cudaStream_t stream) {
    if (has_begun) return cudaSuccess;
    const cudaError_t recorded = events->begin.record(stream);
    has_begun = recorded == cudaSuccess;
    return recorded;
  }

  cudaError_t record_inputs_read(cudaStream_t stream) {
    const cudaError_t recorded = events->inputs_read.record(stream);
    has_inputs_read = recorded == cudaSuccess;
    return recorded;
  }
  // Waits for the end of the launches, then clears the state.
  Stream::Completion finish() {
    Stream::Completion completion{.status = std::move(status)};
    Status came = check(events->end.wait(), "the GPU failed a batch");
    // Clear the thread's error: it must not fail the next batch.
    const cudaError_t last = cudaGetLastError();
    if (completion.status && came) came = check(last, "the GPU failed a batch");
    if (completion.status && !came) completion.status = std::move(came);
    if (completion.status && has_begun) completion.device_ns = events->end.since(events->begin);
    if (completion.status) results->deliver();
    results->clear();
    plan.clear();
    reads->clear();
    has_begun = has_inputs_read = false;
    return completion;
  }
};

}  // namespace itif::device::cuda
