// Tests of attention by cuDNN: when the device uses it, and how its calls join the other launches.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "device/cuda/cudnn/cudnn_attention.h"
#include "device/cuda/device.h"
#include "device/cuda/driver/captures.h"
#include "runtime.h"

namespace itif::device {
namespace {

class CudnnAttention : public ::testing::Test {
 protected:
  struct Shape {
    uint32_t heads = 2, head_size = 32;
    std::vector<kernels::SegmentRows> segments = {{0, 20}, {20, 20}};
  };
  void open(const char* dtype, const char* attention = "cudnn") {
    stream_.reset();
    memory_.reset();
    device_ = open_cuda_device({.kind = "cuda", .dtype = dtype, .attention = attention}).value();
    stream_ = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
    memory_ = device_->allocate(1 << 20).value();
  }
  void launch(const Shape& shape) {
    stream_->launch(kernels::Attention{.qkv = memory_->data(),
                                       .out = memory_->data() + 524288,
                                       .segments = shape.segments,
                                       .num_heads = shape.heads,
                                       .head_size = shape.head_size,
                                       .scale = 1});
  }
  uint64_t calls(const Shape& shape) {
    const uint64_t before = simt::counts().cudnn_calls;
    launch(shape);
    EXPECT_TRUE(stream_->synchronize());
    return simt::counts().cudnn_calls - before;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> memory_;
};

TEST_F(CudnnAttention, TakesSixteenBitTypesAndHeadsThatAreMultiplesOfEight) {
  for (const char* dtype : {"bf16", "f16"}) {
    open(dtype);
    EXPECT_NE(device_->info().description.find("attention by cuDNN 9.19.0"), std::string::npos);
    EXPECT_EQ(calls({}), 1u);
    EXPECT_EQ(calls({.heads = 1, .head_size = 24}), 1u);
    EXPECT_EQ(calls({.heads = 3, .head_size = 12}), 0u) << "rows of 24 bytes";
    EXPECT_EQ(calls({.segments = {{0, 0}}}), 0u) << "nothing to attend to";
    EXPECT_EQ(calls({.head_size = 264}), 0u) << "cuDNN has no kernel";
  }
  open("f32");
  EXPECT_EQ(calls({}), 0u);
  EXPECT_EQ(device_->info().description.find("cuDNN"), std::string::npos);
}

TEST_F(CudnnAttention, CudnnOnlyFailsForUnsupportedHeads) {
  open("bf16", "cudnn-only");
  EXPECT_EQ(calls({}), 1u);
  launch({.heads = 3, .head_size = 12});
  EXPECT_FALSE(stream_->synchronize());
  EXPECT_EQ(calls({}), 1u) << "the device still works";
  const auto f32 = open_cuda_device({.kind = "cuda", .dtype = "f32", .attention = "cudnn-only"});
  ASSERT_FALSE(f32);
  EXPECT_EQ(f32.error().code, Code::kUnsupported);
}

TEST_F(CudnnAttention, OpenFailsWithoutCudnn) {
  struct Restored {
    ~Restored() { simt::set_device({}); }
  } restored;
  const auto refusal = [](size_t version) {
    simt::set_device({.cudnn_version = version});
    const auto opened = open_cuda_device({.kind = "cuda", .attention = "cudnn"});
    EXPECT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::kUnsupported);
    return opened.error().message;
  };
  EXPECT_NE(refusal(0).find("cuDNN cannot be loaded"), std::string::npos);
  EXPECT_NE(refusal(91400).find("cuDNN 9.14.0 is too old for this GPU: it needs 9.15.0 or later"),
            std::string::npos);
  simt::set_device({.cudnn_version = 0});
  EXPECT_TRUE(open_cuda_device({.kind = "cuda"})) << "cuDNN is not requested";
}

// A repeated kind of batch allocates nothing, and all its layers are one graph.
TEST_F(CudnnAttention, IsCapturedIntoGraph) {
  open("bf16");
  const auto again = [&](uint32_t length) {
    const uint64_t before = simt::counts().cudnn_calls;
    const Shape shape{.segments = {{0, length}, {20, 20}}};
    for (int layer = 0; layer < 10; ++layer) launch(shape);
    EXPECT_TRUE(stream_->synchronize());
    return simt::counts().cudnn_calls - before;
  };
  EXPECT_EQ(again(20), 10u);
  const uint64_t allocations = simt::counts().allocations;
  EXPECT_EQ(again(13), 10u);  // captures the graph
  EXPECT_EQ(again(7), 0u);    // replays it: lengths are in the plan memory
  EXPECT_EQ(simt::counts().allocations, allocations);
}

// cuDNN's handles synchronise the device when they are made and destroyed.
TEST_F(CudnnAttention, HandlesWaitForCaptures) {
  open("bf16");
  const cuda::Cudnn& cudnn = *cuda::load_cudnn().value();
  const auto budget = std::make_shared<cuda::Budget>(1 << 20);
  cudaStream_t captured = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking), cudaSuccess);
  std::unique_ptr<cuda::CudnnAttention> made;
  const auto make = [&] {
    auto attention = cuda::CudnnAttention::make(cudnn, DType::kBF16, false, captured, budget);
    if (attention) made = std::move(*attention);
  };
  const auto destroy = [&] { made.reset(); };
  const auto during_capture = [&](const std::function<void()>& call) {
    std::shared_lock lock(cuda::captures());
    ASSERT_EQ(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    std::latch begun(1);
    std::thread other([&] {
      begun.count_down();
      call();
    });
    begun.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(captured, &graph), cudaSuccess);
    lock.unlock();
    other.join();
    (void)cudaGraphDestroy(graph);
  };
  during_capture(make);
  EXPECT_NE(made, nullptr);
  during_capture(destroy);
  (void)cudaStreamDestroy(captured);
}

}  // namespace
}  // namespace itif::device
