// The parts of a stream that belong to one context of the GPU: cuBLAS handles, and the events of
// its batches.
#pragma once

#include <array>
#include <memory>

#include "device/cuda/driver/event.h"
#include "device/cuda/gemm/blas_handles.h"
#include "device/cuda/slices/slices.h"
#include "device/device.h"

namespace itif::device::cuda {

// The events of a batch.
struct WorkEvents {
  StreamEvent begin, inputs_read, end;

  Status make() {
    ITIF_ASSIGN(begin, StreamEvent::make(cudaEventDefault));
    // Blocking: waiting threads sleep and leave the CPU to others.
    ITIF_ASSIGN(end, StreamEvent::make(cudaEventBlockingSync));
    ITIF_ASSIGN(inputs_read, StreamEvent::make(cudaEventDisableTiming));
    return {};
  }
};

struct StreamContext final : InContext {
  // For the calling thread's current context. Errors: kResourceExhausted, kInternal.
  static Result<std::shared_ptr<InContext>> make() {
    auto made = std::make_shared<StreamContext>();
    ITIF_ASSIGN(made->blas, BlasHandles::make());
    for (WorkEvents& of_work : made->events) ITIF_TRY(of_work.make());
    return made;
  }
  // Returns the parts in the context of a slice.
  static const StreamContext& of(const SliceStreams& streams) {
    return static_cast<const StreamContext&>(*streams.in_context);
  }

  std::unique_ptr<BlasHandles> blas;
  // For the batches of pending events, and the batch being launched.
  std::array<WorkEvents, Stream::kMaxPending + 1> events;
};

}  // namespace itif::device::cuda
