// Simpler calls in place of those that cuBLAS has refused, in the batch in which it did.
#include "base/check.h"
#include "device/cuda/gemm/gemm.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

// Makes simpler calls. During a capture it fails with cudaErrorNotSupported instead, so that the
// segment's launches are made one by one: simpler calls would be captured before their code is
// loaded, and a call by pointers would become calls with the addresses of this batch's weights.
template <class Make>
cudaError_t Gemms::make_simpler(size_t stream_index, const Make& make) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  if (const cudaError_t error = cudaStreamIsCapturing(streams_[stream_index].stream, &capturing);
      error != cudaSuccess)
    return error;
  return capturing == cudaStreamCaptureStatusNone ? make() : cudaErrorNotSupported;
}

Gemms::Strided Gemms::one_of(const Strided& call, int index) const {
  const auto bytes = [&](long long stride, cudaDataType type) {
    return index * stride * static_cast<long long>(type == CUDA_R_32F ? 4 : 2);
  };
  Strided one = call;
  one.count = 1;
  one.w = static_cast<const std::byte*>(call.w) + bytes(call.stride_w, call.type_w);
  one.a = static_cast<const std::byte*>(call.a) + bytes(call.stride_a, type_activations_);
  one.out = static_cast<std::byte*>(call.out) + bytes(call.stride_out, call.type_out);
  one.stride_w = one.stride_a = one.stride_out = 0;
  return one;
}

cudaError_t Gemms::make_sequentially(const Strided& call) {
  return make_simpler(call.stream_index, [&] {
    cudaError_t error = cudaSuccess;
    for (int i = 0; error == cudaSuccess && i < call.count; ++i)
      error = make_single(one_of(call, i));
    return error;
  });
}

cudaError_t Gemms::make_sequentially(const Pointers& call) {
  return make_simpler(call.stream_index, [&] {
    cudaError_t error = cudaSuccess;
    for (int i = 0; error == cudaSuccess && i < call.count; ++i)
      error = make_single(alone_[call.first_alone + static_cast<size_t>(i)]);
    return error;
  });
}

// Makes the GEMM, and launches our kernel for the epilogue.
cudaError_t Gemms::make_without_epilogue(const WithEpilogue& call) {
  return make_simpler(call.stream_index, [&] { return make_with_kernel(call); });
}

cudaError_t Gemms::make_with_kernel(const WithEpilogue& call) {
  if (const cudaError_t error = make_single(call.plain); error != cudaSuccess) return error;
  const BlasStream& blas_stream = streams_[call.stream_index];
  kernels::cuda::LaunchLog log;
  const kernels::cuda::Launcher launch(log, call.kind.f32_out ? DType::kF32 : types_.activations,
                                       processors_);
  // All rows have the same bias, whose stride is 0: any numbers do for slots.
  const auto* slots = reinterpret_cast<const uint32_t*>(blas_stream.workspace->data());
  CHECK(call.call.rows * sizeof(uint32_t) <= blas_stream.workspace->bytes());
  kernels::cuda::bias_activation(launch, call.behind, {call.call.rows, slots});
  return log.make({}, log.end(), blas_stream.stream);
}

}  // namespace itif::device::cuda
