// Matrix products onto OpenBLAS: operands are widened to f32, results rounded once. What blas.cc and blas_lt.cc show
// as cuBLAS and cuBLASLt.
#pragma once

#include <cublas_v2.h>

#include <functional>

namespace simt {

// Column-major.
struct Product {
  cublasOperation_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  int m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  cudaDataType type_a = CUDA_R_32F, type_b = CUDA_R_32F, type_c = CUDA_R_32F;
  int lda = 0, ldb = 0, ldc = 0;
  // Parts of a sum are rounded to type_c before they meet, as cuBLAS may unless it is told not to.
  bool is_reduced_in_result_type = false;
  // Of a value before it is rounded, by its row; empty: it stays.
  std::function<float(int row, float value)> epilogue = {};
};

size_t bytes_of(cudaDataType type);
float load(const void* at, cudaDataType type, size_t i);
void store(void* at, cudaDataType type, size_t i, float value);
// To what the type can hold.
float rounded(float value, cudaDataType type);

void multiply(const Product& product, const void* a, const void* b, void* c);

// What cuBLAS documents as supported of what itif asks for.
bool is_supported(const Product& product, bool is_grouped);

}  // namespace simt
