// The part of cuBLAS that the CUDA device calls.
#include <cblas.h>
#include <cublas_v2.h>

#include <vector>

#include "product.h"
#include "runtime.h"
#include "simt.h"

namespace simt {

class Blas {
 public:
  const Context* context = current_context();
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  int processors = 0;          // that calls are sized for; 0: all
  bool has_workspace = false;  // of the caller
};

namespace {

// Returns numbers that distinguish the kernels of two calls.
std::vector<int64_t> code_of(Library library, const Product& p, int64_t count) {
  return {library, p.trans_a, p.trans_b, p.m, p.n, p.k, p.type_a, p.type_c, count};
}

// A handle works only in a thread where its context is current.
cublasStatus_t check(const Blas* handle) {
  return handle->context == current_context() ? CUBLAS_STATUS_SUCCESS
                                              : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t put(Blas* handle, std::vector<int64_t> code, std::function<void()> work) {
  if (!blas_works()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (const cublasStatus_t status = check(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  (void)cudaStreamIsCapturing(handle->stream, &capturing);
  // A graph would keep cuBLAS's own workspace, which other streams use at the same time.
  if (capturing == cudaStreamCaptureStatusActive && !handle->has_workspace)
    fail("cuBLAS: a captured call without a workspace of the caller's");
  code.push_back(handle->processors);
  const cudaError_t error = enqueue_work(handle->stream, code, std::move(work));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// Operands given by device pointers must be aligned, as cuBLAS's manual requires of such calls.
void multiply_aligned(const Product& p, const void* a, const void* b, void* c) {
  const uintptr_t alignment = p.k % 8 == 0 ? 16 : p.k % 2 == 0 ? 4 : 1;
  for (const void* at : {a, b, static_cast<const void*>(c)})
    if (reinterpret_cast<uintptr_t>(at) % alignment != 0) fail("cuBLAS: a misaligned operand");
  multiply(p, a, b, c);
}

Product product(const Blas* handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m,
                int n, int k, const void* alpha, const void* beta, cudaDataType type_a, int lda,
                cudaDataType type_b, int ldb, cudaDataType type_c, int ldc) {
  return {.trans_a = trans_a,
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
          .ldc = ldc,
          .is_reduced_in_result_type =
              (handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 0};
}

cublasStatus_t multiply_strided(cublasHandle_t handle, cublasOperation_t trans_a,
                                cublasOperation_t trans_b, int m, int n, int k, const void* alpha,
                                const void* a, cudaDataType type_a, int lda, long long stride_a,
                                const void* b, cudaDataType type_b, int ldb, long long stride_b,
                                const void* beta, void* c, cudaDataType type_c, int ldc,
                                long long stride_c, int count) {
  const Product p = product(handle, trans_a, trans_b, m, n, k, alpha, beta, type_a, lda, type_b,
                            ldb, type_c, ldc);
  if (!is_supported(p, false)) return CUBLAS_STATUS_INVALID_VALUE;
  return put(handle, code_of(kBlas, p, count), [=] {
    for (int i = 0; i < count; ++i)
      multiply(
          p,
          static_cast<const std::byte*>(a) +
              i * stride_a * static_cast<long long>(bytes_of(type_a)),
          static_cast<const std::byte*>(b) +
              i * stride_b * static_cast<long long>(bytes_of(type_b)),
          static_cast<std::byte*>(c) + i * stride_c * static_cast<long long>(bytes_of(type_c)));
  });
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
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: break;
  }
  return "CUBLAS_STATUS_NOT_SUPPORTED";
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (simt::wait_for_device() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  openblas_set_num_threads(1);  // the tests run in parallel
  *handle = new simt::Blas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (const auto status = simt::check(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  delete handle;
  return simt::wait_for_device() == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                : CUBLAS_STATUS_EXECUTION_FAILED;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (const auto status = simt::check(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  handle->stream = stream;
  handle->has_workspace = false;  // as the manual says
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, size_t) {
  if (const auto status = simt::check(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  handle->has_workspace = true;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  if (const auto status = simt::check(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  handle->processors = count;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (const auto status = simt::check(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t trans_a,
                            cublasOperation_t trans_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType type_a, int lda, const void* b,
                            cudaDataType type_b, int ldb, const void* beta, void* c,
                            cudaDataType type_c, int ldc, cublasComputeType_t, cublasGemmAlgo_t) {
  if (const auto refused = simt::refusal(simt::Call::kSingle); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  return simt::multiply_strided(handle, trans_a, trans_b, m, n, k, alpha, a, type_a, lda, 0, b,
                                type_b, ldb, 0, beta, c, type_c, ldc, 0, 1);
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t trans_a,
                                          cublasOperation_t trans_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType type_a,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType type_c, int ldc,
                                          long long stride_c, int count, cublasComputeType_t,
                                          cublasGemmAlgo_t) {
  if (const auto refused = simt::refusal(simt::Call::kStrided); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  return simt::multiply_strided(handle, trans_a, trans_b, m, n, k, alpha, a, type_a, lda, stride_a,
                                b, type_b, ldb, stride_b, beta, c, type_c, ldc, stride_c, count);
}
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t trans_a,
                                   cublasOperation_t trans_b, int m, int n, int k,
                                   const void* alpha, const void* const a[], cudaDataType type_a,
                                   int lda, const void* const b[], cudaDataType type_b, int ldb,
                                   const void* beta, void* const c[], cudaDataType type_c, int ldc,
                                   int count, cublasComputeType_t, cublasGemmAlgo_t) {
  const Product p = simt::product(handle, trans_a, trans_b, m, n, k, alpha, beta, type_a, lda,
                                  type_b, ldb, type_c, ldc);
  if (!simt::is_supported(p, false)) return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto refused = simt::refusal(simt::Call::kByPointers); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  return simt::put(handle, simt::code_of(simt::kBlasBatched, p, count), [=] {
    for (int i = 0; i < count; ++i) simt::multiply_aligned(p, a[i], b[i], c[i]);
  });
}
cublasStatus_t cublasGemmGroupedBatchedEx(
    cublasHandle_t handle, const cublasOperation_t trans_a[], const cublasOperation_t trans_b[],
    const int m[], const int n[], const int k[], const void* alpha, const void* const a[],
    cudaDataType type_a, const int lda[], const void* const b[], cudaDataType type_b,
    const int ldb[], const void* beta, void* const c[], cudaDataType type_c, const int ldc[],
    int num_groups, const int group_size[], cublasComputeType_t) {
  // A replay reads the arrays on the host again: the manual does not say that a graph copies them.
  const auto products = [=, of = *handle] {
    std::vector<Product> all;
    for (int group = 0; group < num_groups; ++group)
      all.insert(all.end(), static_cast<size_t>(group_size[group]),
                 simt::product(&of, trans_a[group], trans_b[group], m[group], n[group], k[group],
                               static_cast<const float*>(alpha) + group,
                               static_cast<const float*>(beta) + group, type_a, lda[group], type_b,
                               ldb[group], type_c, ldc[group]));
    return all;
  };
  const auto multiply = [=](const std::vector<Product>& all) {
    for (size_t i = 0; i < all.size(); ++i) simt::multiply_aligned(all[i], a[i], b[i], c[i]);
  };
  if (const auto refused = simt::refusal(simt::Call::kGrouped); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  std::vector<int64_t> code;
  for (const Product& p : products()) {
    if (!simt::is_supported(p, true)) return CUBLAS_STATUS_NOT_SUPPORTED;
    const std::vector<int64_t> one = simt::code_of(simt::kBlasGrouped, p, 1);
    code.insert(code.end(), one.begin(), one.end());
  }
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  (void)cudaStreamIsCapturing(handle->stream, &capturing);
  if (capturing != cudaStreamCaptureStatusNone)
    return simt::put(handle, code, [=] { multiply(products()); });
  return simt::put(handle, code, [multiply, all = products()] { multiply(all); });
}
