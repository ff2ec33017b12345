// Stream captures of the machine, and graphs.
#include <cuda_runtime.h>

#include <thread>
#include <utility>

#include "machine.h"

using simt::Lock;
using simt::runtime;

namespace {

// Ends the capture of all its streams.
void end(const simt::Graph* graph) {
  for (auto& stream : runtime().streams)
    if (stream->captures == graph) {
      stream->captures = nullptr;
      stream->begins_capture = false;
    }
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Lock lock(runtime().mutex);
  simt::Stream& of = runtime().of(stream);
  if (&of == &runtime().legacy()) return runtime().set(cudaErrorStreamCaptureUnsupported);
  if (of.captures != nullptr) return runtime().set(cudaErrorIllegalState);
  if (const cudaError_t error = runtime().check(stream); error != cudaSuccess) return error;
  of.captures = new simt::Graph;
  of.captures->mode = mode;
  of.captures->thread = std::this_thread::get_id();
  of.begins_capture = true;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  Lock lock(runtime().mutex);
  const simt::Stream& of = runtime().of(stream);
  if (&of == &runtime().legacy() && runtime().captures_blocking_stream())
    return runtime().set(cudaErrorStreamCaptureImplicit);
  const simt::Graph* graph = of.captures;
  *status = graph == nullptr   ? cudaStreamCaptureStatusNone
            : graph->is_broken ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Lock lock(runtime().mutex);
  const simt::Stream& of = runtime().of(stream);
  *graph = nullptr;
  if (of.captures == nullptr) return runtime().set(cudaErrorIllegalState);
  if (!of.begins_capture) return runtime().set(cudaErrorStreamCaptureUnmatched);
  if (of.captures->mode != cudaStreamCaptureModeRelaxed &&
      of.captures->thread != std::this_thread::get_id())
    return runtime().set(cudaErrorStreamCaptureWrongThread);
  simt::Graph* const captured = of.captures;
  end(captured);
  cudaError_t error = runtime().check(stream);
  if (!captured->unjoined.empty()) error = runtime().set(cudaErrorStreamCaptureUnjoined);
  if (captured->is_broken) error = runtime().set(cudaErrorStreamCaptureInvalidated);
  if (error == cudaSuccess)
    *graph = captured;
  else
    delete captured;
  return error;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->works.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  const size_t bytes = graph->works.size() * simt::kGraphNodeBytes;
  if (bytes > r.free_bytes()) return r.set(cudaErrorMemoryAllocation);
  r.counts.live_device_bytes += bytes;
  r.graph_bytes += bytes;
  *exec = new simt::GraphExec{graph->works, bytes, r.current(), r.num_resets};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().refuse_wait(stream); error != cudaSuccess) return error;
  return runtime().check(stream);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().check(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = runtime().refuse_foreign(exec->context); error != cudaSuccess)
    return error;
  for (const simt::PlacedWork& one : exec->works) runtime().count_launch(one.place);
  return runtime().put(stream,
                       {.work =
                            [works = exec->works] {
                              for (const simt::PlacedWork& one : works) one.work();
                            },
                        .waits_for = {},
                        .is_graph = true},
                       true);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (exec->num_resets == r.num_resets) {
    r.counts.live_device_bytes -= exec->bytes;
    r.graph_bytes -= exec->bytes;
  }
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
