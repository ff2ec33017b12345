// cuBLAS and cuBLASLt, loaded by name when a GPU is opened. Programs therefore start on machines
// without them, and compute on the host there.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include "base/error.h"

namespace itif::device::cuda {

// The entry points that we load. Those with explicit types are overloaded in cuBLAS's header.
struct Blas {
  using Handle = cublasHandle_t;
  using Op = cublasOperation_t;
  using Type = cudaDataType;
  using Compute = cublasComputeType_t;
  using Algo = cublasGemmAlgo_t;
  using Pointers = const void* const*;

  decltype(&cublasCreate) create = nullptr;
  decltype(&cublasDestroy) destroy = nullptr;
  decltype(&cublasSetStream) set_stream = nullptr;
  decltype(&cublasSetWorkspace) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSetSmCountTarget) set_processors = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  cublasStatus_t (*gemm)(Handle, Op, Op, int m, int n, int k, const void* alpha, const void* a,
                         Type, int lda, const void* b, Type, int ldb, const void* beta, void* c,
                         Type, int ldc, Compute, Algo) = nullptr;
  cublasStatus_t (*gemm_strided_batched)(Handle, Op, Op, int m, int n, int k, const void* alpha,
                                         const void* a, Type, int lda, long long stride_a,
                                         const void* b, Type, int ldb, long long stride_b,
                                         const void* beta, void* c, Type, int ldc,
                                         long long stride_c, int count, Compute, Algo) = nullptr;
  cublasStatus_t (*gemm_batched)(Handle, Op, Op, int m, int n, int k, const void* alpha, Pointers a,
                                 Type, int lda, Pointers b, Type, int ldb, const void* beta,
                                 void* const* c, Type, int ldc, int count, Compute, Algo) = nullptr;
  decltype(&cublasGemmGroupedBatchedEx) gemm_grouped_batched = nullptr;

  // cuBLASLt. The …Init_internal functions, which the header's inline functions call, build a
  // descriptor in the caller's memory.
  decltype(&cublasLtGetVersion) lt_version = nullptr;
  decltype(&cublasLtCreate) lt_create = nullptr;
  decltype(&cublasLtDestroy) lt_destroy = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) lt_init_matmul = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) lt_set_matmul = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) lt_init_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) lt_init_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) lt_set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) lt_find = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) lt_check = nullptr;
  decltype(&cublasLtMatmul) lt_matmul = nullptr;
};

// Loads once per process. Errors: kUnsupported, with the loader's message.
Result<const Blas*> load_blas();

// REQUIRES: load_blas() succeeded. Errors: kResourceExhausted if memory is short, else kInternal.
Status check(cublasStatus_t error, const char* what);

}  // namespace itif::device::cuda
