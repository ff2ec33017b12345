// Makes the cuBLAS calls that Gemms has logged, and simpler ones (gemm_fallbacks.cc) in place of
// those that cuBLAS refuses.
#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "device/cuda/gemm/gemm.h"

namespace itif::device::cuda {

// Converts a cuBLAS status to the error type of launches. Logs a new kind of failure.
cudaError_t Gemms::as_launch(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return cudaSuccess;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return cudaErrorMemoryAllocation;
  if (std::exchange(fault_, status) != status)
    log::warning("a cuBLAS call failed: {}", blas_.status_string(status));
  return cudaErrorLaunchFailure;
}

// No call is simpler: if cuBLAS refuses it, the batch fails, but not the device.
cudaError_t Gemms::make_single(const Strided& c) {
  const cublasStatus_t status =
      blas_.gemm(streams_[c.stream_index].handle, c.trans_w, CUBLAS_OP_N, c.m, c.n, c.k, &kOne, c.w,
                 c.type_w, c.ldw, c.a, type_activations_, c.k, &kZero, c.out, c.type_out, c.m,
                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (!is_refusal(status)) return as_launch(status);
  if (refused_)
    refused_ =
        fail(Code::kUnsupported, fmt::format("cuBLAS refused a GEMM of {} × {} for {} rows: {}",
                                             c.m, c.k, c.n, blas_.status_string(status)));
  return cudaErrorNotSupported;
}

cublasStatus_t Gemms::call(const Strided& c) {
  return blas_.gemm_strided_batched(
      streams_[c.stream_index].handle, c.trans_w, CUBLAS_OP_N, c.m, c.n, c.k, &kOne, c.w, c.type_w,
      c.ldw, c.stride_w, c.a, type_activations_, c.k, c.stride_a, &kZero, c.out, c.type_out, c.m,
      c.stride_out, c.count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t Gemms::call(const WithEpilogue& c) {
  const BlasStream& blas_stream = streams_[c.stream_index];
  return c.gemm->run(blas_, lt_, c.call, blas_stream.workspace->data(), blas_stream.stream);
}

cublasStatus_t Gemms::call(const Pointers& c) {
  const cublasHandle_t handle = streams_[c.stream_index].handle;
  if (c.groups == nullptr)
    return blas_.gemm_batched(handle, CUBLAS_OP_T, CUBLAS_OP_N, c.m, c.n, c.k, &kOne, c.weights,
                              type_weights_, c.k, c.inputs, type_activations_, c.k, &kZero,
                              c.outputs, c.type_out, c.m, c.count, CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT);
  const Groups& groups = *c.groups;
  return blas_.gemm_grouped_batched(
      handle, groups.trans_w.data(), groups.trans_a.data(), groups.m.data(), groups.n.data(),
      groups.k.data(), groups.one.data(), c.weights, type_weights_, groups.ldw.data(), c.inputs,
      type_activations_, groups.lda.data(), groups.zero.data(), c.outputs, type_activations_,
      groups.ldc.data(), c.count, groups.sizes.data(), CUBLAS_COMPUTE_32F);
}

// Makes a call unless its kind has been refused before. Returns nullopt if it is refused.
template <class Call>
std::optional<cudaError_t> Gemms::unless_refused(const Call& c) {
  if (refusals().has(c.kind)) return std::nullopt;
  const cublasStatus_t status = call(c);
  if (!is_refusal(status)) return as_launch(status);
  refusals().add(c.kind, status);
  return std::nullopt;
}
template std::optional<cudaError_t> Gemms::unless_refused(const Strided& c);
template std::optional<cudaError_t> Gemms::unless_refused(const WithEpilogue& c);
template std::optional<cudaError_t> Gemms::unless_refused(const Pointers& c);

cudaError_t Gemms::make_strided(const Strided& c, cudaStream_t) {
  Gemms& g = *c.gemms;
  if (c.count == 1) return g.make_single(c);
  const auto made = g.unless_refused(c);
  return made ? *made : g.make_sequentially(c);
}

cudaError_t Gemms::make_with_epilogue(const WithEpilogue& c, cudaStream_t) {
  if (c.call.rows == 0) return cudaSuccess;
  const auto made = c.gemms->unless_refused(c);
  return made ? *made : c.gemms->make_without_epilogue(c);
}

cudaError_t Gemms::make_pointers(const Pointers& c, cudaStream_t) {
  const auto made = c.gemms->unless_refused(c);
  return made ? *made : c.gemms->make_sequentially(c);
}

cudaError_t Gemms::fork(const Join& call, cudaStream_t) {
  auto& streams = call.gemms->streams_;
  cudaError_t error = streams[0].reached->record(streams[0].stream);
  for (size_t i = 1; error == cudaSuccess && i < call.num_streams; ++i)
    error = cudaStreamWaitEvent(streams[i].stream, streams[0].reached->get());
  return error;
}

cudaError_t Gemms::join(const Join& call, cudaStream_t) {
  auto& streams = call.gemms->streams_;
  cudaError_t error = cudaSuccess;
  for (size_t i = 1; error == cudaSuccess && i < call.num_streams; ++i) {
    error = streams[i].reached->record(streams[i].stream);
    if (error == cudaSuccess)
      error = cudaStreamWaitEvent(streams[0].stream, streams[i].reached->get());
  }
  return error;
}

}  // namespace itif::device::cuda
