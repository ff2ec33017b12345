// The simulated cuBLASLt refuses what the real one refuses.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace {

constexpr uint64_t kHeight = 8, kDepth = 16, kColumns = 24;

// D [height, columns] = Aᵀ B in bf16, with a bias.
class BlasLt : public ::testing::Test {
 protected:
  BlasLt() {
    EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory_), 1 << 20), cudaSuccess);
    bias_ = memory_ + 4096;
    EXPECT_EQ(
        cublasLtMatmulDescInit_internal(&matmul_, sizeof matmul_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_T});
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_RELU_BIAS});
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_);
    lay_out(a_, kDepth, kHeight);
    lay_out(b_, kDepth, kColumns);
    lay_out(d_, kHeight, kColumns);
    EXPECT_EQ(cublasLtMatmulPreferenceInit_internal(&preference_, sizeof preference_),
              CUBLAS_STATUS_SUCCESS);
    const uint64_t workspace = 1 << 19;
    EXPECT_EQ(
        cublasLtMatmulPreferenceSetAttribute(&preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof workspace),
        CUBLAS_STATUS_SUCCESS);
  }
  ~BlasLt() override {
    (void)cudaFree(memory_);
    (void)cublasLtDestroy(handle_);
  }
  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return cublasLtMatmulDescSetAttribute(&matmul_, attribute, &value, sizeof value);
  }
  static void lay_out(cublasLtMatrixLayoutOpaque_t& layout, uint64_t rows, uint64_t columns,
                      cudaDataType type = CUDA_R_16BF) {
    EXPECT_EQ(cublasLtMatrixLayoutInit_internal(&layout, sizeof layout, type, rows, columns,
                                                static_cast<int64_t>(rows)),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t find() {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle_, &matmul_, &a_, &b_, &d_, &d_, &preference_, 1,
                                          &found_, &count);
  }
  cublasStatus_t run(size_t offset_a = 0, size_t workspace_offset = 0, size_t workspace = 1 << 19) {
    const float one = 1, zero = 0;
    std::byte* const d = memory_ + 65536;
    return cublasLtMatmul(handle_, &matmul_, &one, memory_ + offset_a, &a_, memory_, &b_, &zero, d,
                          &d_, d, &d_, &found_.algo, memory_ + (1 << 19) + workspace_offset,
                          workspace, nullptr);
  }

  cublasLtHandle_t handle_ = nullptr;
  std::byte *memory_ = nullptr, *bias_ = nullptr;
  cublasLtMatmulDescOpaque_t matmul_ = {};
  cublasLtMatrixLayoutOpaque_t a_ = {}, b_ = {}, d_ = {};
  cublasLtMatmulPreferenceOpaque_t preference_ = {};
  cublasLtMatmulHeuristicResult_t found_ = {};
};

TEST_F(BlasLt, RunsRequestedMatmul) {
  ASSERT_EQ(find(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}
TEST_F(BlasLt, RejectsBiasOfAnotherType) {
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(find(), CUBLAS_STATUS_INVALID_VALUE);
  lay_out(d_, kHeight, kColumns, CUDA_R_32F);
  EXPECT_EQ(find(), CUBLAS_STATUS_SUCCESS);
}
TEST_F(BlasLt, RejectsNullBias) {
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(nullptr)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(find(), CUBLAS_STATUS_INVALID_VALUE);
}
TEST_F(BlasLt, RejectsAttributesOfWrongSize) {
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint64_t{1}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, uint32_t{1}), CUBLAS_STATUS_INVALID_VALUE);
}
TEST_F(BlasLt, RejectsMismatchedMatrices) {
  lay_out(b_, kDepth + 1, kColumns);
  EXPECT_EQ(find(), CUBLAS_STATUS_INVALID_VALUE);
}
TEST_F(BlasLt, AlgorithmFitsOnlyItsProblem) {
  ASSERT_EQ(find(), CUBLAS_STATUS_SUCCESS);
  lay_out(b_, kDepth, kColumns + 1);
  lay_out(d_, kHeight, kColumns + 1);
  EXPECT_EQ(run(), CUBLAS_STATUS_INVALID_VALUE);
  lay_out(b_, kDepth, 1);
  lay_out(d_, kHeight, 1);
  EXPECT_EQ(run(), CUBLAS_STATUS_SUCCESS);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS});
  EXPECT_EQ(run(), CUBLAS_STATUS_INVALID_VALUE);
}
TEST_F(BlasLt, RejectsMisalignedMemory) {
  ASSERT_EQ(find(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(16), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(run(0, 128), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(0, 0, 1024), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(0, 256), CUBLAS_STATUS_INVALID_VALUE) << "the workspace exceeds the allocation";
}

}  // namespace
