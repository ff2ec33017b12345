#include "device/cuda/error.h"

#include <fmt/format.h>

#include "device/cuda/blas.h"

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
              fmt::format("{}: the driver answers {}", what, static_cast<int>(error)));
}

Status check(cublasStatus_t error, const char* what) {
  if (error == CUBLAS_STATUS_SUCCESS) return {};
  return fail(error == CUBLAS_STATUS_ALLOC_FAILED ? Code::kResourceExhausted : Code::kInternal,
              fmt::format("{}: {}", what, (*load_blas())->status_string(error)));
}

}  // namespace itif::device::cuda
