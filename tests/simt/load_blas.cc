// Replaces lib/device/cuda/gemm/blas.cc: the functions of this folder are linked, not loaded.
#include "device/cuda/gemm/blas.h"

namespace itif::device::cuda {

Result<const Blas*> load_blas() {
  static const Blas blas = {
      .create = &cublasCreate,
      .destroy = &cublasDestroy,
      .set_stream = &cublasSetStream,
      .set_workspace = &cublasSetWorkspace,
      .set_math_mode = &cublasSetMathMode,
      .set_processors = &cublasSetSmCountTarget,
      .status_string = &cublasGetStatusString,
      .gemm = &cublasGemmEx,
      .gemm_strided_batched = &cublasGemmStridedBatchedEx,
      .gemm_batched = &cublasGemmBatchedEx,
      .gemm_grouped_batched = &cublasGemmGroupedBatchedEx,
      .lt_version = &cublasLtGetVersion,
      .lt_create = &cublasLtCreate,
      .lt_destroy = &cublasLtDestroy,
      .lt_init_matmul = &cublasLtMatmulDescInit_internal,
      .lt_set_matmul = &cublasLtMatmulDescSetAttribute,
      .lt_init_layout = &cublasLtMatrixLayoutInit_internal,
      .lt_init_preference = &cublasLtMatmulPreferenceInit_internal,
      .lt_set_preference = &cublasLtMatmulPreferenceSetAttribute,
      .lt_find = &cublasLtMatmulAlgoGetHeuristic,
      .lt_check = &cublasLtMatmulAlgoCheck,
      .lt_matmul = &cublasLtMatmul,
  };
  return &blas;
}

}  // namespace itif::device::cuda
