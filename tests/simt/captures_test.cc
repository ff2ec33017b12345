// Graphs that are spoilt while they are being captured, by other groups that come and go.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "device/cuda/device.h"
#include "runtime.h"

namespace itif::device {
namespace {

class Captures : public ::testing::Test {
 protected:
  static constexpr uint32_t kGemms = 6;

  Captures() {
    for (uint32_t i = 0; i < kGemms; ++i)
      prepared_.push_back(device_->prepare({.n = 8 + i, .k = 32, .has_bias = false}, 64).value());
  }
  ~Captures() override { simt::break_captures_after(UINT64_MAX); }
  // Of four tenants each, which run on four streams beside one another.
  void launch_gemms(Stream& stream) {
    for (const GemmHandle& prepared : prepared_) {
      const auto n = static_cast<uint32_t>(8 + (&prepared - prepared_.data()));
      stream.gemm({.a = memory_->data(),
                   .weights = {memory_->data(), 0},
                   .bias = {},
                   .out = memory_->data() + 262144,
                   .n = n,
                   .k = 32,
                   .ranges = ranges_,
                   .mode = kernels::GemmMode::kInTurn,
                   .prepared = prepared.get()});
    }
  }
  // How many launches it took.
  uint64_t run() {
    const uint64_t before = simt::counts().launches;
    launch_gemms(*stream_);
    EXPECT_TRUE(stream_->synchronize());
    return simt::counts().launches - before;
  }

  const std::vector<kernels::RowRange> ranges_ = {{0, 8, 0}, {8, 9, 1}, {17, 7, 2}, {24, 5, 3}};
  const std::unique_ptr<Device> device_ =
      open_cuda_device({.kind = "cuda", .dtype = "f32"}).value();
  const std::unique_ptr<Stream> stream_ =
      device_->make_stream({.max_tokens = 64, .max_segments = 8}).value();
  const std::unique_ptr<Buffer> memory_ = device_->allocate(1 << 20).value();
  std::vector<GemmHandle> prepared_;
};

// Wherever it happens, no launch of the spoilt graph is made on its own.
TEST_F(Captures, WhatIsSpoiltIsLaunchedOnceAndCapturedLater) {
  const uint64_t one_by_one = run();
  EXPECT_EQ(one_by_one, 4u * kGemms);
  for (const uint64_t captured : {0, 5}) {  // 0: before the other streams have joined in
    simt::break_captures_after(captured);
    EXPECT_EQ(run(), one_by_one) << "spoilt behind " << captured;
  }
  EXPECT_EQ(stream_->graphs().launches, 0u);
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(stream_->graphs().launches, 1u);
}

TEST_F(Captures, WhatIsSpoiltTimeAndAgainStaysWithoutAGraph) {
  const uint64_t one_by_one = run();
  for (int turn = 0; turn < 3; ++turn) {
    simt::break_captures_after(5);
    EXPECT_EQ(run(), one_by_one);
  }
  EXPECT_EQ(run(), one_by_one);
  EXPECT_EQ(stream_->graphs().launches, 0u);
}

// A stream makes cuBLAS's handles, and ends them.
TEST_F(Captures, StreamsComeAndGoMeanwhile) {
  std::atomic<bool> ends = false;
  size_t num_ready = 0, num_graphs = 0;
  std::thread capturing([&] {
    while (!ends) {
      const auto stream = device_->make_stream({.max_tokens = 64, .max_segments = 8}).value();
      for (int form = 0; form < 10; ++form) {
        for (int again = 0; again <= form; ++again) launch_gemms(*stream);
        num_ready += static_cast<bool>(stream->make_ready());
        num_graphs += stream->graphs().kept == static_cast<size_t>(form + 1);
      }
      num_ready -= 10;
      num_graphs -= 10;
    }
  });
  for (int turn = 0; turn < 60; ++turn) {
    const auto made = device_->make_stream({.max_tokens = 64, .max_segments = 8});
    EXPECT_TRUE(made) << made.error().message;
    if (!made) break;
  }
  ends = true;
  capturing.join();
  EXPECT_EQ(num_ready, 0u);
  EXPECT_EQ(num_graphs, 0u) << "a graph was spoilt";
}

}  // namespace
}  // namespace itif::device
