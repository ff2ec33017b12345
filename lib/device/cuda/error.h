// What CUDA answers, as this project's errors.
#pragma once

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include "base/error.h"

namespace itif::device::cuda {

// kResourceExhausted where memory is short, else kInternal. `what`: what could not be done.
Status check(cudaError_t error, const char* what);
Status check(CUresult error, const char* what);
// REQUIRES: load_blas() has found it.
Status check(cublasStatus_t error, const char* what);

}  // namespace itif::device::cuda
