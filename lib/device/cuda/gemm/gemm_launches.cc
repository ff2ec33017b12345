// Makes the cuBLAS calls that Gemms has logged.
#include <utility>

#include "base/log.h"
#include "device/cuda/gemm/gemm.h"

namespace itif::device::cuda {
namespace {

// Returns true if another call may still compute the same.
bool is_unsupported(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH ||
         status == CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

// Converts a cuBLAS status to the error type of launches. Logs a new kind of failure.
cudaError_t Gemms::as_launch(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return cudaSuccess;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return cudaErrorMemoryAllocation;
  if (std::exchange(refused_, status) != status)
    log::warning("cuBLAS rejected a GEMM: {}", blas_.status_string(status));
  return cudaErrorLaunchFailure;
}

cudaError_t Gemms::make_strided(const Strided& c, cudaStream_t) {
  Gemms& g = *c.gemms;
  const cublasHandle_t handle = g.streams_[c.stream_index].handle;
  if (c.count == 1)
    return g.as_launch(g.blas_.gemm(handle, c.trans_w, CUBLAS_OP_N, c.m, c.n, c.k, &kOne, c.w,
                                    c.type_w, c.ldw, c.a, g.type_activations_, c.k, &kZero, c.out,
                                    c.type_out, c.m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return g.as_launch(g.blas_.gemm_strided_batched(
      handle, c.trans_w, CUBLAS_OP_N, c.m, c.n, c.k, &kOne, c.w, c.type_w, c.ldw, c.stride_w, c.a,
      g.type_activations_, c.k, c.stride_a, &kZero, c.out, c.type_out, c.m, c.stride_out, c.count,
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

cudaError_t Gemms::make_with_epilogue(const WithEpilogue& c, cudaStream_t) {
  if (c.call.rows == 0) return cudaSuccess;
  Gemms& g = *c.gemms;
  const BlasStream& blas_stream = g.streams_[c.stream_index];
  return g.as_launch(
      c.gemm->run(g.blas_, g.lt_, c.call, blas_stream.workspace->data(), blas_stream.stream));
}

cudaError_t Gemms::make_pointers(const Pointers& c, cudaStream_t) {
  Gemms& g = *c.gemms;
  const cublasHandle_t handle = g.streams_[c.stream_index].handle;
  if (c.groups == nullptr)
    return g.as_launch(g.blas_.gemm_batched(handle, CUBLAS_OP_T, CUBLAS_OP_N, c.m, c.n, c.k, &kOne,
                                            c.weights, g.type_weights_, c.k, c.inputs,
                                            g.type_activations_, c.k, &kZero, c.outputs, c.type_out,
                                            c.m, c.count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  const Groups& of = *c.groups;
  const cublasStatus_t status = g.blas_.gemm_grouped_batched(
      handle, of.trans_w.data(), of.trans_a.data(), of.m.data(), of.n.data(), of.k.data(),
      of.one.data(), c.weights, g.type_weights_, of.ldw.data(), c.inputs, g.type_activations_,
      of.lda.data(), of.zero.data(), c.outputs, g.type_activations_, of.ldc.data(), c.count,
      of.sizes.data(), CUBLAS_COMPUTE_32F);
  return is_unsupported(status) ? g.make_alone(c, status) : g.as_launch(status);
}

// Runs the products of a grouped call that cuBLAS has refused one by one, and groups none from the
// next batch on. A graph must not hold these calls: its key does not have the
// weights that their pointers refer to.
cudaError_t Gemms::make_alone(const Pointers& call, cublasStatus_t refusal) {
  if (calls_.stop_grouping())
    log::warning("cuBLAS has no grouped GEMM of {} × {} ({}): each tenant's runs alone from now on",
                 call.m, call.k, blas_.status_string(refusal));
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  if (const cudaError_t error =
          cudaStreamIsCapturing(streams_[call.stream_index].stream, &capturing);
      error != cudaSuccess)
    return error;
  if (capturing != cudaStreamCaptureStatusNone) return cudaErrorNotSupported;
  for (const Strided& one : call.groups->alone)
    if (const cudaError_t error = make_strided(one, nullptr); error != cudaSuccess) return error;
  return cudaSuccess;
}

cudaError_t Gemms::fork(const Join& call, cudaStream_t) {
  auto& streams = call.gemms->streams_;
  cudaError_t error = cudaEventRecord(streams[0].reached, streams[0].stream);
  for (size_t i = 1; error == cudaSuccess && i < call.num_streams; ++i)
    error = cudaStreamWaitEvent(streams[i].stream, streams[0].reached);
  return error;
}

cudaError_t Gemms::join(const Join& call, cudaStream_t) {
  auto& streams = call.gemms->streams_;
  cudaError_t error = cudaSuccess;
  for (size_t i = 1; error == cudaSuccess && i < call.num_streams; ++i) {
    error = cudaEventRecord(streams[i].reached, streams[i].stream);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(streams[0].stream, streams[i].reached);
  }
  return error;
}

}  // namespace itif::device::cuda
