// The machine's streams and events.
#include <cuda_runtime.h>

#include <memory>

#include "machine.h"

using simt::Lock;
using simt::runtime;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().check(); error != cudaSuccess) return error;
  *stream =
      runtime().streams.emplace_back(std::make_unique<simt::Stream>(runtime().current())).get();
  (*stream)->is_blocking = (flags & cudaStreamNonBlocking) == 0;
  ++runtime().counts.streams_made;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const cudaError_t error = cudaStreamCreateWithFlags(stream, flags);
  if (error == cudaSuccess) (*stream)->place.priority = priority;
  return error;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().check(); error != cudaSuccess) return error;
  *least = 0;
  *greatest = 1 - runtime().device.num_priorities;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(runtime().mutex);
  runtime().drain_all();  // others may wait for it
  std::erase_if(runtime().streams, [&](const auto& one) { return one.get() == stream; });
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().refuse_wait(stream); error != cudaSuccess) return error;
  ++runtime().counts.stream_waits;
  runtime().drain(runtime().of(stream));
  return runtime().check();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().refuse_wait(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = runtime().check(); error != cudaSuccess) return error;
  simt::Stream& of = runtime().of(stream);
  if (of.num_done < of.num_put && runtime().random() % 4 == 0) runtime().drain(of);
  return of.num_done == of.num_put ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Lock lock(runtime().mutex);
  if (!event->is_recorded) return cudaSuccess;
  simt::Stream& of = runtime().of(stream);
  if (event->captured_in != nullptr) {
    if (!runtime().is_capturing(event->captured_in)) return runtime().set(cudaErrorCapturedEvent);
    // Forks the stream into the capture, or joins it there.
    if (of.captures == nullptr) of.captures = event->captured_in;
    if (of.captures != event->captured_in) {
      of.captures->is_broken = event->captured_in->is_broken = true;
      return runtime().set(cudaErrorStreamCaptureMerge);
    }
    if (of.captures->is_broken) return runtime().set(cudaErrorStreamCaptureInvalidated);
    of.captures->unjoined.erase(event->captured_from);
    return cudaSuccess;
  }
  if (of.captures != nullptr) {
    of.captures->is_broken = true;
    return runtime().set(cudaErrorStreamCaptureIsolation);
  }
  return runtime().put(stream, {.work = nullptr, .waits_for = event->mark}, false);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Lock lock(runtime().mutex);
  *event = new simt::Event(flags, runtime().enter());
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  runtime().drain_all();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  for (const simt::Context* context : {event->context, r.of(stream).context})
    if (const cudaError_t error = r.refuse_foreign(context); error != cudaSuccess) return error;
  if (const cudaError_t error =
          r.put(stream, {.work = nullptr, .event = event, .waits_for = {}}, false);
      error != cudaSuccess)
    return error;
  event->is_recorded = true;
  event->captured_in = r.of(stream).captures;
  event->captured_from = &r.of(stream);
  if (event->captured_in != nullptr) return cudaSuccess;
  event->mark = {&r.of(stream), r.of(stream).num_put};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_wait(*event); error != cudaSuccess) return error;
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  if (!event->is_recorded) return cudaSuccess;
  if (event->mark.stream->num_done < event->mark.number && r.random() % 4 == 0)
    r.reach(event->mark);
  // Not ready is an error that cudaGetLastError() returns, too.
  return event->mark.stream->num_done >= event->mark.number ? cudaSuccess
                                                            : r.set(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().refuse_wait(*event); error != cudaSuccess) return error;
  if (event->is_recorded) runtime().reach(event->mark);
  return runtime().check();
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  if (start->context != end->context) return r.set(cudaErrorInvalidResourceHandle);
  for (const simt::Event* event : {start, end})
    if (event->captured_in != nullptr) return r.set(cudaErrorCapturedEvent);
  for (const simt::Event* event : {start, end})
    if ((event->flags & cudaEventDisableTiming) != 0 || event->mark.stream == nullptr)
      return r.set(cudaErrorInvalidResourceHandle);
  for (const simt::Event* event : {start, end})
    if (event->mark.stream->num_done < event->mark.number) return r.set(cudaErrorNotReady);
  *ms = static_cast<float>(end->ms - start->ms);
  return cudaSuccess;
}
