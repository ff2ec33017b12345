// Matrix products on OpenBLAS, behind the simulated cuBLAS (blas.cc) and cuBLASLt (blas_lt.cc).
// Operands are widened to f32; results are rounded once.
#pragma once

#include <cublas_v2.h>

#include <cstdint>
#include <functional>
#include <initializer_list>

namespace simt {

// Matrices are column-major.
struct Product {
  cublasOperation_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  int m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  cudaDataType type_a = CUDA_R_32F, type_b = CUDA_R_32F, type_c = CUDA_R_32F;
  int lda = 0, ldb = 0, ldc = 0;
  // Partial sums are rounded to type_c before they are added, as cuBLAS may do unless it is
  // configured otherwise.
  bool is_reduced_in_result_type = false;
  // Applied to each value before it is rounded, given its row; empty: none.
  std::function<float(int row, float value)> epilogue = {};
};

// First numbers of the code that libraries run (machine.h).
enum Library : int64_t { kBlas = 1, kBlasBatched, kBlasGrouped, kBlasLt, kCudnn };

size_t bytes_of(cudaDataType type);
float load(const void* at, cudaDataType type, size_t i);
void store(void* at, cudaDataType type, size_t i, float value);
// Returns the value rounded to `type`.
float rounded(float value, cudaDataType type);

void multiply(const Product& product, const void* a, const void* b, void* c);

// Returns whether cuBLAS's documentation lists the product as supported.
bool is_supported(const Product& product, bool is_grouped);

// Makes calls fail as on a GPU without a kernel for them.
enum class Call : unsigned { kSingle, kStrided, kByPointers, kGrouped, kWithEpilogue };
class Refused {
 public:
  // Until the object is destroyed. REQUIRES: no other exists.
  explicit Refused(std::initializer_list<Call> calls,
                   cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED);
  ~Refused();
  Refused(const Refused&) = delete;
  Refused& operator=(const Refused&) = delete;
  // Number of calls refused so far.
  uint64_t count() const;
};
// Returns the status of a call of this kind: success, unless it is refused.
cublasStatus_t refusal(Call call);

}  // namespace simt
