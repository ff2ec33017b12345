// Converts error codes of CUDA to this project's errors.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "base/error.h"

namespace itif::device::cuda {

// Errors: kResourceExhausted if memory is short, else kInternal. `what`: the operation that failed.
Status check(cudaError_t error, const char* what);
Status check(CUresult error, const char* what);

}  // namespace itif::device::cuda
