// Tests of the machine behind cuda_runtime.h: which work it does late, and which calls it refuses.
#include "runtime.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "simt.h"

namespace simt {
namespace {

class Runtime : public ::testing::Test {
 protected:
  Runtime() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&device_, 64), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&host_, 64, cudaHostAllocDefault), cudaSuccess);
  }
  ~Runtime() override {
    (void)cudaDeviceReset();
    (void)cudaStreamDestroy(a_);
    (void)cudaStreamDestroy(b_);
    (void)cudaFree(device_);
    (void)cudaFreeHost(host_);
  }
  cudaError_t set(cudaStream_t stream, int value) {
    return cudaMemsetAsync(device_, value, 64, stream);
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  unsigned char* device_ = nullptr;
  unsigned char* host_ = nullptr;
};

TEST_F(Runtime, WorkRunsWhenWaitedFor) {
  ASSERT_EQ(set(a_, 3), cudaSuccess);
  EXPECT_NE(device_[0], 3);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(device_[63], 3);
}

TEST_F(Runtime, OnlyEventsOrderStreams) {
  bool seen[2] = {};
  for (int turn = 0; turn < 64; ++turn) {
    ASSERT_EQ(set(a_, 1), cudaSuccess);
    ASSERT_EQ(set(b_, 2), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    seen[device_[0] - 1] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1]);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  for (int turn = 0; turn < 64; ++turn) {
    ASSERT_EQ(set(a_, 1), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, a_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(b_, event), cudaSuccess);
    ASSERT_EQ(set(b_, 2), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(device_[0], 2);
  }
  (void)cudaEventDestroy(event);
}

TEST_F(Runtime, ElapsedTimeNeedsCompletedTimingEvents) {
  cudaEvent_t begin = nullptr, end = nullptr, untimed = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&begin, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventBlockingSync), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaSuccess);
  float ms = -1;
  ASSERT_EQ(cudaEventRecord(begin, a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, a_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle)
      << "not recorded";
  ASSERT_EQ(set(a_, 1), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, a_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, untimed, end), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(ms, -1);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 0);
  ASSERT_EQ(cudaEventRecord(end, a_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady) << "recorded again";
  for (cudaEvent_t event : {begin, end, untimed}) (void)cudaEventDestroy(event);
}

TEST_F(Runtime, AsyncCopyNeedsPinnedMemory) {
  std::vector<unsigned char> anywhere(64);
  EXPECT_EQ(cudaMemcpyAsync(anywhere.data(), device_, 64, cudaMemcpyDeviceToHost, a_),
            cudaErrorInvalidValue);
  ASSERT_EQ(cudaHostRegister(anywhere.data(), 64, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(anywhere.data(), device_, 64, cudaMemcpyDeviceToHost, a_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(host_, device_, 65, cudaMemcpyDeviceToHost, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host_, device_, 64, cudaMemcpyHostToDevice, a_), cudaErrorInvalidValue);
  ASSERT_EQ(cudaHostUnregister(anywhere.data()), cudaSuccess);
}

TEST_F(Runtime, GraphReplaysCapturedWork) {
  ASSERT_EQ(set(a_, 9), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(set(a_, 4), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_, device_, 64, cudaMemcpyDeviceToHost, a_), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(device_[0], 9) << "captured, not run";
  for (int turn = 0; turn < 2; ++turn) {
    host_[0] = 0;
    ASSERT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    EXPECT_EQ(host_[0], 4);
  }
  (void)cudaGraphExecDestroy(exec);
  (void)cudaGraphDestroy(graph);
}

TEST_F(Runtime, CaptureForksAndMustJoinStreams) {
  cudaEvent_t forked = nullptr, joined = nullptr;
  for (cudaEvent_t* event : {&forked, &joined})
    ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
  for (const bool joins : {true, false}) {
    ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(forked, a_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(b_, forked), cudaSuccess);
    ASSERT_EQ(set(b_, 5), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(joined, b_), cudaSuccess);
    if (joins) {
      ASSERT_EQ(cudaStreamWaitEvent(a_, joined), cudaSuccess);
    }
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(a_, &graph) == cudaSuccess, joins);
    (void)cudaGraphDestroy(graph);
    // Neither stream captures any more.
    ASSERT_EQ(set(b_, joins ? 6 : 7), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
    EXPECT_EQ(device_[0], joins ? 6 : 7);
  }
  (void)cudaEventDestroy(forked);
  (void)cudaEventDestroy(joined);
}

TEST_F(Runtime, FaultPersists) {
  fail_after(1);
  EXPECT_EQ(set(a_, 1), cudaSuccess);
  EXPECT_EQ(set(a_, 2), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceReset(), cudaErrorIllegalAddress)
      << "the reset returns the error of the fault that it ends";
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device_, 64), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&host_, 64, cudaHostAllocDefault), cudaSuccess);
  EXPECT_EQ(set(a_, 3), cudaErrorInvalidResourceHandle) << "it was of the former context";
  (void)cudaGetLastError();
  ASSERT_EQ(cudaStreamDestroy(a_), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(set(a_, 3), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
}

TEST_F(Runtime, MemoryIsLimited) {
  size_t available = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&available, &total), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, available + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Runtime, LastErrorIsPerThread) {
  void* memory = nullptr;
  (void)cudaGetLastError();
  std::thread([&] {
    EXPECT_EQ(cudaMalloc(&memory, SIZE_MAX / 2), cudaErrorMemoryAllocation);
  }).join();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, SIZE_MAX / 2), cudaErrorMemoryAllocation);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

}  // namespace
}  // namespace simt
