// In the place of lib/device/cuda/blas.cc: blas.cc of this folder is linked, not loaded.
#include "device/cuda/blas.h"

namespace itif::device::cuda {

Result<const Blas*> load_blas() {
  static const Blas blas = {
      .create = &cublasCreate,
      .destroy = &cublasDestroy,
      .set_stream = &cublasSetStream,
      .set_workspace = &cublasSetWorkspace,
      .status_string = &cublasGetStatusString,
      .gemm = &cublasGemmEx,
      .gemm_strided_batched = &cublasGemmStridedBatchedEx,
      .gemm_batched = &cublasGemmBatchedEx,
      .gemm_grouped_batched = &cublasGemmGroupedBatchedEx,
  };
  return &blas;
}

}  // namespace itif::device::cuda
