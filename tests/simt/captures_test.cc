// Stream captures that other groups invalidate by creating and destroying streams.
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
  // Launches GEMMs of four tenants each, on four concurrent streams.
  void launch_gemms(Stream& stream) {
    for (const GemmHandle& prepared : prepared_) {
      const auto n = static_cast<uint32_t>(8 + (&prepared - prepared_.data()));
      stream.launch(kernels::GroupedGemm{.a = memory_->data(),
                                         .weights = {memory_->data(), 0},
                                         .bias = {},
                                         .out = memory_->data() + 262144,
                                         .n = n,
                                         .k = 32,
                                         .ranges = ranges_,
                                         .schedule = kernels::GemmMode::kSequential,
                                         .prepared = prepared.get()});
    }
  }
  // Returns the number of launches that it took.
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

// At whatever point a capture is invalidated, none of its launches runs on its own.
TEST_F(Captures, InvalidatedCaptureLaunchesOnceAndIsRetried) {
  const uint64_t one_by_one = run();
  EXPECT_EQ(one_by_one, 4u * kGemms);
  for (const uint64_t captured : {0, 5}) {  // 0: before the other streams have joined
    simt::break_captures_after(captured);
    const uint64_t failures = stream_->graphs().failures;
    EXPECT_EQ(run(), one_by_one) << "invalidated after " << captured;
    EXPECT_EQ(stream_->graphs().failures, failures + 1);
  }
  EXPECT_EQ(stream_->graphs().launches, 0u);
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(stream_->graphs().launches, 1u);
}

TEST_F(Captures, RepeatedInvalidationGivesUpCapture) {
  const uint64_t one_by_one = run();
  for (int turn = 0; turn < 3; ++turn) {
    simt::break_captures_after(5);
    EXPECT_EQ(run(), one_by_one);
  }
  EXPECT_EQ(run(), one_by_one);
  EXPECT_EQ(stream_->graphs().launches, 0u);
}

// Creating and destroying a stream also creates and destroys cuBLAS handles.
TEST_F(Captures, CapturesWhileStreamsAreMadeAndDestroyed) {
  std::atomic<bool> ends = false;
  size_t num_ready = 0, num_graphs = 0;
  std::thread capturing([&] {
    while (!ends) {
      const auto stream = device_->make_stream({.max_tokens = 64, .max_segments = 8}).value();
      for (int bucket = 0; bucket < 10; ++bucket) {
        for (int again = 0; again <= bucket; ++again) launch_gemms(*stream);
        num_ready += static_cast<bool>(stream->warm_up());
        num_graphs += stream->graphs().kept == static_cast<size_t>(bucket + 1);
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
  EXPECT_EQ(num_graphs, 0u) << "a capture was invalidated";
}

}  // namespace
}  // namespace itif::device
