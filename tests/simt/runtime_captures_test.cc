// Calls that CUDA refuses during a stream capture. Source: cudaThreadExchangeStreamCaptureMode() of
// the runtime's manual; "Prohibited and Unhandled Operations" of the programming guide.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "runtime.h"

namespace simt {
namespace {

class CaptureRules : public ::testing::Test {
 protected:
  CaptureRules() {
    for (cudaStream_t* stream : {&captured_, &other_})
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&blocking_, cudaStreamDefault), cudaSuccess);
    for (cudaEvent_t* event : {&captured_event_, &event_})
      EXPECT_EQ(cudaEventCreateWithFlags(event, cudaEventDefault), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&device_, 64), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&host_, 64, cudaHostAllocDefault), cudaSuccess);
  }
  ~CaptureRules() override {
    for (cudaStream_t stream : {captured_, other_, blocking_}) (void)cudaStreamDestroy(stream);
    for (cudaEvent_t event : {captured_event_, event_}) (void)cudaEventDestroy(event);
    (void)cudaFree(device_);
    (void)cudaFreeHost(host_);
    (void)cudaGetLastError();
  }

  using Call = std::function<cudaError_t()>;
  struct Case {
    const char* name;
    Call call;
    cudaError_t refusal = cudaErrorStreamCaptureUnsupported;
  };
  // Calls that are unsafe only because a replay would not repeat them.
  std::vector<Case> unsafe_calls() {
    return {
        {"cudaMalloc", [this] { return cudaMalloc(&made_, 64); }},
        {"cudaFree", [] { return cudaFree(nullptr); }},
        {"cudaHostAlloc", [this] { return cudaHostAlloc(&made_host_, 64, cudaHostAllocDefault); }},
        {"cudaFreeHost", [] { return cudaFreeHost(nullptr); }},
        {"cudaHostRegister",
         [this] { return cudaHostRegister(pages_.data(), 64, cudaHostRegisterDefault); }},
        {"cudaMemcpy", [this] { return cudaMemcpy(device_, host_, 64, cudaMemcpyHostToDevice); }},
        {"cudaMemset", [this] { return cudaMemset(device_, 1, 64); }},
        {"cudaEventQuery", [this] { return cudaEventQuery(event_); }},
        {"cudaEventSynchronize", [this] { return cudaEventSynchronize(event_); }},
        {"cudaStreamQuery", [this] { return cudaStreamQuery(other_); }},
        {"cudaStreamSynchronize", [this] { return cudaStreamSynchronize(other_); }},
    };
  }
  // Calls that conflict with a capture in any mode.
  std::vector<Case> conflicting_calls() {
    return {
        {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }},
        {"cudaStreamSynchronize", [this] { return cudaStreamSynchronize(captured_); }},
        {"cudaStreamQuery", [this] { return cudaStreamQuery(captured_); }},
        {"cudaEventSynchronize", [this] { return cudaEventSynchronize(captured_event_); },
         cudaErrorCapturedEvent},
        {"cudaEventQuery", [this] { return cudaEventQuery(captured_event_); },
         cudaErrorCapturedEvent},
        {"cudaStreamWaitEvent", [this] { return cudaStreamWaitEvent(captured_, event_); },
         cudaErrorStreamCaptureIsolation},
    };
  }
  cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
    const cudaError_t error = cudaStreamBeginCapture(stream, mode);
    if (error != cudaSuccess) return error;
    return cudaEventRecord(captured_event_, stream);
  }
  static cudaError_t end(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph != nullptr, ended == cudaSuccess);
    (void)cudaGraphDestroy(graph);
    return ended;
  }
  void free_made() {
    (void)cudaFree(made_);
    (void)cudaFreeHost(made_host_);
    (void)cudaHostUnregister(pages_.data());
    made_ = nullptr;
    made_host_ = nullptr;
  }

  cudaStream_t captured_ = nullptr, other_ = nullptr, blocking_ = nullptr;
  cudaEvent_t captured_event_ = nullptr, event_ = nullptr;
  unsigned char *device_ = nullptr, *host_ = nullptr;
  void *made_ = nullptr, *made_host_ = nullptr;
  std::vector<unsigned char> pages_ = std::vector<unsigned char>(4096);
};

TEST_F(CaptureRules, UnsafeCallsNeedRelaxedMode) {
  for (const auto& [name, call, refusal] : unsafe_calls())
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                            cudaStreamCaptureModeRelaxed}) {
      SCOPED_TRACE(testing::Message() << name << ", mode " << mode);
      const bool is_legal = mode == cudaStreamCaptureModeRelaxed;
      ASSERT_EQ(begin(captured_, mode), cudaSuccess);
      const cudaError_t error = call();
      EXPECT_TRUE(is_legal ? error == cudaSuccess || error == cudaErrorNotReady : error == refusal)
          << cudaGetErrorName(error);
      EXPECT_EQ(end(captured_), is_legal ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
      free_made();
    }
}

TEST_F(CaptureRules, OtherThreadsMayMakeUnsafeCallsUnlessCaptureIsGlobal) {
  for (const auto& [name, call, refusal] : unsafe_calls())
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
      SCOPED_TRACE(testing::Message() << name << ", mode " << mode);
      const bool is_legal = mode == cudaStreamCaptureModeThreadLocal;
      ASSERT_EQ(begin(captured_, mode), cudaSuccess);
      cudaError_t error = cudaSuccess;
      std::thread([&] { error = call(); }).join();
      EXPECT_TRUE(is_legal ? error == cudaSuccess || error == cudaErrorNotReady : error == refusal)
          << cudaGetErrorName(error);
      EXPECT_EQ(end(captured_), is_legal ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
      free_made();
    }
}

TEST_F(CaptureRules, ConflictingCallsFailInAnyMode) {
  for (const auto& [name, call, refusal] : conflicting_calls())
    for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
      SCOPED_TRACE(testing::Message() << name << ", mode " << mode);
      ASSERT_EQ(begin(captured_, mode), cudaSuccess);
      EXPECT_EQ(call(), refusal);
      EXPECT_EQ(cudaMemsetAsync(device_, 1, 64, captured_), cudaErrorStreamCaptureInvalidated);
      EXPECT_EQ(end(captured_), cudaErrorStreamCaptureInvalidated);
    }
}

// The legacy stream waits for blocking streams, so a capture of one excludes it.
TEST_F(CaptureRules, LegacyStreamIsUnusableWhileBlockingStreamIsCaptured) {
  const std::vector<Case> calls = {
      {"cudaMemsetAsync", [this] { return cudaMemsetAsync(device_, 1, 64); }},
      {"cudaMemset", [this] { return cudaMemset(device_, 1, 64); }},
      {"cudaMemcpy", [this] { return cudaMemcpy(device_, host_, 64, cudaMemcpyHostToDevice); }},
      {"cudaStreamSynchronize", [] { return cudaStreamSynchronize(cudaStreamLegacy); }},
      {"cudaEventRecord", [this] { return cudaEventRecord(event_, cudaStreamLegacy); }},
  };
  for (const auto& [name, call, refusal] : calls) {
    SCOPED_TRACE(name);
    ASSERT_EQ(begin(blocking_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureImplicit);
    EXPECT_EQ(end(blocking_), cudaErrorStreamCaptureInvalidated);
    ASSERT_EQ(begin(captured_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(call(), cudaSuccess) << "the captured stream does not block";
    EXPECT_EQ(end(captured_), cudaSuccess);
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ASSERT_EQ(begin(blocking_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaStreamIsCapturing(cudaStreamLegacy, &status), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(end(blocking_), cudaSuccess) << "a question invalidates nothing";
}

TEST_F(CaptureRules, CapturesBeginAndEndOnTheirStream) {
  EXPECT_EQ(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(captured_), cudaErrorIllegalState);
  ASSERT_EQ(begin(captured_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(captured_, cudaStreamCaptureModeThreadLocal),
            cudaErrorIllegalState);
  ASSERT_EQ(cudaStreamWaitEvent(other_, captured_event_), cudaSuccess);
  EXPECT_EQ(end(other_), cudaErrorStreamCaptureUnmatched);
  std::thread([this] { EXPECT_EQ(end(captured_), cudaErrorStreamCaptureWrongThread); }).join();
  EXPECT_EQ(end(captured_), cudaSuccess);
}

TEST_F(CaptureRules, CapturesDoNotMerge) {
  ASSERT_EQ(begin(other_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(captured_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(captured_, captured_event_), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(end(captured_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(other_), cudaErrorStreamCaptureInvalidated);
}

// An event that a capture recorded has no work to wait for, also after the capture.
TEST_F(CaptureRules, CapturedEventsAreUselessUntilTheyAreRecordedAgain) {
  ASSERT_EQ(begin(captured_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(end(captured_), cudaSuccess);
  float ms = 0;
  EXPECT_EQ(cudaEventQuery(captured_event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(captured_event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(other_, captured_event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, captured_event_), cudaErrorCapturedEvent);
  ASSERT_EQ(cudaEventRecord(captured_event_, captured_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(captured_event_), cudaSuccess);
}

}  // namespace
}  // namespace simt
