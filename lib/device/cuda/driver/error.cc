#include "device/cuda/driver/error.h"

#include <fmt/format.h>

namespace itif::device::cuda {

Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return fail(error == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kInternal,
              fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)));
}

Status check(CUresult error, const char* what) {
  if (error == CUDA_SUCCESS) return {};
  if (error == CUDA_ERROR_OUT_OF_MEMORY)
    return fail(Code::kResourceExhausted, fmt::format("{}: the GPU is out of memory", what));
  return fail(Code::kInternal,
              fmt::format("{}: CUDA driver error {}", what, static_cast<int>(error)));
}

}  // namespace itif::device::cuda
