// The simulated driver's contexts: what belongs to one is refused where another one is current.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime.h"

namespace simt {
namespace {

CUresult make_context(CUcontext& context, unsigned multiprocessors) {
  CUexecAffinityParam affinity{.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT,
                               .param = {.smCount = {multiprocessors}}};
  CUctxCreateParams params{
      .execAffinityParams = &affinity, .numExecAffinityParams = 1, .cigParams = nullptr};
  return cuCtxCreate(&context, &params, CU_CTX_SCHED_BLOCKING_SYNC, 0);
}

// A stream and memory of the primary context, and a context of 3 multiprocessors, of which the
// driver makes 4. The primary context is current.
class Contexts : public ::testing::Test {
 protected:
  Contexts() {
    set_device({.num_multiprocessors = 12});
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&primary_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMallocAsync(&memory_, kBytes, primary_), cudaSuccess);
    EXPECT_EQ(make_context(context_, 3), CUDA_SUCCESS);
    EXPECT_EQ(cudaStreamCreateWithFlags(&limited_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  ~Contexts() override {
    (void)cudaSetDevice(0);
    (void)cudaStreamDestroy(limited_);
    (void)cuCtxDestroy(context_);
    (void)cudaStreamDestroy(primary_);
    (void)cudaDeviceReset();
    set_device({});
  }
  void use_limited() { ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS); }
  void use_primary() { ASSERT_EQ(cudaSetDevice(0), cudaSuccess); }
  cudaError_t set(cudaStream_t stream) { return cudaMemsetAsync(memory_, 7, kBytes, stream); }
  // Returns the error of calls on a stream whose context is not current.
  void expect_refused(cudaStream_t stream) {
    constexpr cudaError_t kForeign = cudaErrorInvalidResourceHandle;
    EXPECT_EQ(set(stream), kForeign);
    EXPECT_EQ(enqueue_work(stream, {1}, [] {}), kForeign);
    EXPECT_EQ(
        enqueue_grid(reinterpret_cast<const void*>(&expect_no_run), {1}, {32}, 0, stream, [] {}),
        kForeign);
    EXPECT_EQ(cudaMemcpyAsync(memory_, memory_, 8, cudaMemcpyDeviceToDevice, stream), kForeign);
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), kForeign);
    EXPECT_EQ(cudaFreeAsync(memory_, stream), kForeign);
    cudaEvent_t of_current = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&of_current, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(of_current, stream), kForeign);
    (void)cudaEventDestroy(of_current);
    (void)cudaGetLastError();
  }
  static void expect_no_run() { FAIL(); }

  static constexpr size_t kBytes = 64;
  cudaStream_t primary_ = nullptr, limited_ = nullptr;
  CUcontext context_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(Contexts, HaveAtLeastTheMultiprocessorsAskedFor) {
  use_limited();
  CUexecAffinityParam made{};
  ASSERT_EQ(cuCtxGetExecAffinity(&made, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_SUCCESS);
  EXPECT_EQ(made.param.smCount.val, 4u);
  ASSERT_EQ(set(limited_), cudaSuccess);
  EXPECT_EQ(launched_on().back().place.limit, 4u);
  EXPECT_NE(launched_on().back().place.context, 0u);
}

TEST_F(Contexts, StreamsNeedTheirContextCurrent) {
  expect_refused(limited_);
  EXPECT_EQ(set(primary_), cudaSuccess);
  use_limited();
  expect_refused(primary_);
  EXPECT_EQ(set(limited_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(primary_), cudaSuccess) << "any thread may wait";
  EXPECT_EQ(cudaStreamSynchronize(limited_), cudaSuccess);
  EXPECT_EQ(*static_cast<unsigned char*>(memory_), 7) << "pool memory belongs to no context";
}

TEST_F(Contexts, AnEventIsRecordedOnlyInItsContext) {
  cudaEvent_t of_primary = nullptr, of_limited = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&of_primary, cudaEventDisableTiming), cudaSuccess);
  use_limited();
  ASSERT_EQ(cudaEventCreateWithFlags(&of_limited, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(of_primary, limited_), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(set(limited_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(of_limited, limited_), cudaSuccess);
  use_primary();
  EXPECT_EQ(cudaStreamWaitEvent(primary_, of_limited), cudaSuccess) << "a wait may cross contexts";
  EXPECT_EQ(cudaEventSynchronize(of_limited), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(of_limited), cudaSuccess);
  for (cudaEvent_t event : {of_primary, of_limited}) (void)cudaEventDestroy(event);
  (void)cudaGetLastError();
}

TEST_F(Contexts, AGraphIsLaunchedOnlyInItsContext) {
  use_limited();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(limited_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(set(limited_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(limited_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, limited_), cudaSuccess);
  use_primary();
  EXPECT_EQ(cudaGraphLaunch(exec, limited_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGraphLaunch(exec, primary_), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaStreamSynchronize(limited_), cudaSuccess);
  (void)cudaGraphExecDestroy(exec);
  (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
}

TEST_F(Contexts, CodeIsLoadedForEachContext) {
  ASSERT_EQ(enqueue_work(primary_, {5}, [] {}), cudaSuccess);
  use_limited();
  ASSERT_EQ(cudaStreamBeginCapture(limited_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(enqueue_work(limited_, {5}, [] {}), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(limited_, &graph), cudaErrorStreamCaptureInvalidated);
  (void)cudaGetLastError();
}

TEST_F(Contexts, HandlesOfCublasNeedTheirContextCurrent) {
  cublasHandle_t handle = nullptr;
  cublasLtHandle_t lt = nullptr;
  use_limited();
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtCreate(&lt), CUBLAS_STATUS_SUCCESS);
  use_primary();
  const float one = 1;
  EXPECT_EQ(cublasSetStream(handle, primary_), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, memory_, CUDA_R_32F, 1,
                         memory_, CUDA_R_32F, 1, &one, memory_, CUDA_R_32F, 1, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasLtDestroy(lt), CUBLAS_STATUS_NOT_INITIALIZED);
  use_limited();
  EXPECT_EQ(cublasSetStream(handle, limited_), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtDestroy(lt), CUBLAS_STATUS_SUCCESS);
}

TEST_F(Contexts, EachThreadHasItsOwnCurrentOne) {
  use_limited();
  std::thread([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(set(primary_), cudaSuccess);
  }).join();
  EXPECT_EQ(set(limited_), cudaSuccess);
}

TEST_F(Contexts, APushedOneGivesWayToTheFormer) {
  ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(set(limited_), cudaSuccess);
  CUcontext popped = nullptr;
  ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, context_);
  EXPECT_EQ(set(primary_), cudaSuccess);
}

TEST_F(Contexts, ADestroyedOneFailsTheThreadsThatHaveIt) {
  CUcontext other = nullptr;
  ASSERT_EQ(make_context(other, 2), CUDA_SUCCESS);
  std::thread([&] { EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS); }).join();
  EXPECT_EQ(cudaMemsetAsync(memory_, 0, 8, nullptr), cudaErrorContextIsDestroyed);
  EXPECT_EQ(cuCtxSetCurrent(other), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  use_primary();
  EXPECT_EQ(set(primary_), cudaSuccess);
  (void)cudaGetLastError();
}

TEST_F(Contexts, AFaultStaysAsLongAsOneIsLeft) {
  fail_after(0);
  EXPECT_EQ(set(primary_), cudaErrorIllegalAddress);
  (void)cudaStreamDestroy(primary_);
  primary_ = nullptr;
  EXPECT_EQ(cudaDeviceReset(), cudaErrorIllegalAddress);
  EXPECT_NE(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Contexts, NeedAnMpsServerAndMemory) {
  int is_supported = -1;
  CUcontext other = nullptr;
  set_device({.num_multiprocessors = 12, .max_mps_contexts = 1});
  EXPECT_EQ(make_context(other, 4), CUDA_ERROR_OUT_OF_MEMORY);
  set_device({.num_multiprocessors = 12, .has_mps = false});
  ASSERT_EQ(cuDeviceGetExecAffinitySupport(&is_supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(is_supported, 0);
  EXPECT_EQ(make_context(other, 4), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}

}  // namespace
}  // namespace simt
