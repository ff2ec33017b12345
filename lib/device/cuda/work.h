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
  StreamEvent inputs_read, end;
  bool says_inputs_read = false;  // or the end does
  Status status;

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
    if (completion.status) results->deliver();
    results->clear();
    plan.clear();
    reads->clear();
    says_inputs_read = false;
    return completion;
  }
};

}  // namespace itif::device::cuda
