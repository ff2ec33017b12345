// Tries cuBLAS out after a device reset. It has a CUDA runtime of its own, which may not notice
// that ours has reset the device.
#pragma once

#include "device/cuda/gemm/blas.h"

namespace itif::device::cuda {

// Multiplies two small matrices with a new handle and checks the product. REQUIRES: cuBLAS is
// loaded. Errors: kResourceExhausted, kInternal.
Status try_blas(cudaStream_t stream);

}  // namespace itif::device::cuda
