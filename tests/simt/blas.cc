// cuBLAS onto OpenBLAS: operands are widened to f32, results rounded once.
#include <cblas.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <vector>

#include "runtime.h"

namespace simt {

class Blas {
 public:
  cudaStream_t stream = nullptr;
};

namespace {

struct Product {
  cublasOperation_t trans_a, trans_b;
  int m, n, k;
  float alpha, beta;
  cudaDataType type_a, type_b, type_c;
  int lda, ldb, ldc;
};

size_t bytes_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}
float load(const void* at, cudaDataType type, size_t i) {
  switch (type) {
    case CUDA_R_16F: return __half2float(static_cast<const __half*>(at)[i]);
    case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i]);
    default: return static_cast<const float*>(at)[i];
  }
}
void store(void* at, cudaDataType type, size_t i, float value) {
  switch (type) {
    case CUDA_R_16F: static_cast<__half*>(at)[i] = __float2half_rn(value); break;
    case CUDA_R_16BF: static_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16_rn(value); break;
    default: static_cast<float*>(at)[i] = value;
  }
}

// Of rows × columns, column-major, without the gaps.
std::vector<float> widened(const void* at, cudaDataType type, int rows, int columns, int ld) {
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r)
      values[static_cast<size_t>(c) * static_cast<size_t>(rows) + static_cast<size_t>(r)] =
          load(at, type, static_cast<size_t>(c) * static_cast<size_t>(ld) + static_cast<size_t>(r));
  return values;
}

void multiply(const Product& p, const void* a, const void* b, void* c) {
  if (p.m == 0 || p.n == 0) return;
  const bool ta = p.trans_a == CUBLAS_OP_T, tb = p.trans_b == CUBLAS_OP_T;
  const int rows_a = ta ? p.k : p.m, columns_a = ta ? p.m : p.k;
  const int rows_b = tb ? p.n : p.k, columns_b = tb ? p.k : p.n;
  const auto wide_a = widened(a, p.type_a, rows_a, columns_a, p.lda);
  const auto wide_b = widened(b, p.type_b, rows_b, columns_b, p.ldb);
  auto wide_c = p.beta == 0
                    ? std::vector<float>(static_cast<size_t>(p.m) * static_cast<size_t>(p.n))
                    : widened(c, p.type_c, p.m, p.n, p.ldc);
  cblas_sgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, p.m,
              p.n, p.k, p.alpha, wide_a.data(), rows_a, wide_b.data(), rows_b, p.beta,
              wide_c.data(), p.m);
  for (int column = 0; column < p.n; ++column)
    for (int row = 0; row < p.m; ++row)
      store(c, p.type_c,
            static_cast<size_t>(column) * static_cast<size_t>(p.ldc) + static_cast<size_t>(row),
            wide_c[static_cast<size_t>(column) * static_cast<size_t>(p.m) +
                   static_cast<size_t>(row)]);
}

// What cuBLAS documents as supported of what itif asks for.
bool is_supported(const Product& p, bool is_grouped) {
  if (p.m < 0 || p.n < 0 || p.k <= 0) return false;
  if (p.lda < (p.trans_a == CUBLAS_OP_T ? p.k : p.m)) return false;
  if (p.ldb < (p.trans_b == CUBLAS_OP_T ? p.n : p.k) || p.ldc < p.m) return false;
  if (p.type_a != p.type_b) return false;
  return p.type_c == p.type_a || (p.type_c == CUDA_R_32F && !is_grouped);
}

cublasStatus_t put(Blas* handle, std::function<void()> work) {
  const cudaError_t error = enqueue_work(handle->stream, std::move(work));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace simt

using simt::Product;

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: break;
  }
  return "CUBLAS_STATUS_NOT_SUPPORTED";
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  openblas_set_num_threads(1);  // the tests run side by side
  *handle = new simt::Blas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t trans_a,
                            cublasOperation_t trans_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType type_a, int lda, const void* b,
                            cudaDataType type_b, int ldb, const void* beta, void* c,
                            cudaDataType type_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx(handle, trans_a, trans_b, m, n, k, alpha, a, type_a, lda, 0, b,
                                    type_b, ldb, 0, beta, c, type_c, ldc, 0, 1, compute, algo);
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t trans_a,
                                          cublasOperation_t trans_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType type_a,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType type_c, int ldc,
                                          long long stride_c, int count, cublasComputeType_t,
                                          cublasGemmAlgo_t) {
  const Product p{.trans_a = trans_a,
                  .trans_b = trans_b,
                  .m = m,
                  .n = n,
                  .k = k,
                  .alpha = *static_cast<const float*>(alpha),
                  .beta = *static_cast<const float*>(beta),
                  .type_a = type_a,
                  .type_b = type_b,
                  .type_c = type_c,
                  .lda = lda,
                  .ldb = ldb,
                  .ldc = ldc};
  if (!is_supported(p, false)) return CUBLAS_STATUS_INVALID_VALUE;
  return simt::put(handle, [=] {
    for (int i = 0; i < count; ++i)
      simt::multiply(p,
                     static_cast<const std::byte*>(a) +
                         i * stride_a * static_cast<long long>(simt::bytes_of(type_a)),
                     static_cast<const std::byte*>(b) +
                         i * stride_b * static_cast<long long>(simt::bytes_of(type_b)),
                     static_cast<std::byte*>(c) +
                         i * stride_c * static_cast<long long>(simt::bytes_of(type_c)));
  });
}
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t trans_a,
                                   cublasOperation_t trans_b, int m, int n, int k,
                                   const void* alpha, const void* const a[], cudaDataType type_a,
                                   int lda, const void* const b[], cudaDataType type_b, int ldb,
                                   const void* beta, void* const c[], cudaDataType type_c, int ldc,
                                   int count, cublasComputeType_t, cublasGemmAlgo_t) {
  const Product p{.trans_a = trans_a,
                  .trans_b = trans_b,
                  .m = m,
                  .n = n,
                  .k = k,
                  .alpha = *static_cast<const float*>(alpha),
                  .beta = *static_cast<const float*>(beta),
                  .type_a = type_a,
                  .type_b = type_b,
                  .type_c = type_c,
                  .lda = lda,
                  .ldb = ldb,
                  .ldc = ldc};
  if (!simt::is_supported(p, false)) return CUBLAS_STATUS_INVALID_VALUE;
  return simt::put(handle, [=] {
    for (int i = 0; i < count; ++i) simt::multiply(p, a[i], b[i], c[i]);
  });
}
cublasStatus_t cublasGemmGroupedBatchedEx(
    cublasHandle_t handle, const cublasOperation_t trans_a[], const cublasOperation_t trans_b[],
    const int m[], const int n[], const int k[], const void* alpha, const void* const a[],
    cudaDataType type_a, const int lda[], const void* const b[], cudaDataType type_b,
    const int ldb[], const void* beta, void* const c[], cudaDataType type_c, const int ldc[],
    int num_groups, const int group_size[], cublasComputeType_t) {
  std::vector<Product> products;
  for (int group = 0; group < num_groups; ++group) {
    const Product p{.trans_a = trans_a[group],
                    .trans_b = trans_b[group],
                    .m = m[group],
                    .n = n[group],
                    .k = k[group],
                    .alpha = static_cast<const float*>(alpha)[group],
                    .beta = static_cast<const float*>(beta)[group],
                    .type_a = type_a,
                    .type_b = type_b,
                    .type_c = type_c,
                    .lda = lda[group],
                    .ldb = ldb[group],
                    .ldc = ldc[group]};
    if (!simt::is_supported(p, true)) return CUBLAS_STATUS_INVALID_VALUE;
    products.insert(products.end(), static_cast<size_t>(group_size[group]), p);
  }
  return simt::put(handle, [=, products = std::move(products)] {
    for (size_t i = 0; i < products.size(); ++i) simt::multiply(products[i], a[i], b[i], c[i]);
  });
}
