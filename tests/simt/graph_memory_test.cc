// Device memory of CUDA graphs: weights cannot take it, and graphs cannot take more, so that the
// driver has its own.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "device_fixture.h"
#include "runtime.h"

namespace itif::device {
namespace {

class GraphMemory : public CudaDevice {
 protected:
  static constexpr uint32_t kLaunches = 1000;  // of a graph: 62.5 MiB

  // Runs the batch of a number. Returns its launches on the GPU.
  uint64_t run(uint32_t batch) {
    const uint64_t before = simt::counts().launches;
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream_->launch(kernels::ToF32{
          .x = out_->data(), .out = reinterpret_cast<float*>(out_->data()), .count = 1 + batch});
    EXPECT_TRUE(stream_->synchronize());
    return simt::counts().launches - before;
  }
  static size_t free_bytes() {
    size_t free = 0, all = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
    return free;
  }
};

// Weights take all that the limit allows.
TEST_F(GraphMemory, IsLeftByWeights) {
  const auto weights = device_->allocate(device_->available_bytes());
  ASSERT_TRUE(weights) << weights.error().message;
  for (uint32_t batch = 0; batch < 2; ++batch) {
    for (int turn = 0; turn < 2; ++turn) run(batch);
    EXPECT_EQ(run(batch), 1u) << "a graph";
  }
  EXPECT_EQ(stream_->graphs().failures, 0u);
}

TEST_F(GraphMemory, LeastRecentlyUsedGraphsMakeRoom) {
  const size_t before = free_bytes();
  for (uint32_t batch = 0; batch < 6; ++batch) {
    for (int turn = 0; turn < 2; ++turn) run(batch);
    EXPECT_EQ(run(batch), 1u) << "a graph";
    EXPECT_GE(free_bytes(), before - (size_t{256} << 20)) << "a quarter of a GiB";
  }
  EXPECT_EQ(run(2), 1u) << "four graphs have room";
  EXPECT_EQ(stream_->graphs().kept, 4u);
  EXPECT_EQ(stream_->graphs().failures, 0u);
  stream_.reset();
  EXPECT_GE(free_bytes(), before) << "their memory is free again";
}

// Graphs that are captured ahead do not evict each other.
TEST_F(GraphMemory, WarmUpKeepsItsFirstGraphs) {
  for (uint32_t batch = 0; batch < 6; ++batch) {
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream_->launch(kernels::ToF32{
          .x = out_->data(), .out = reinterpret_cast<float*>(out_->data()), .count = 1 + batch});
    ASSERT_TRUE(stream_->warm_up());
  }
  EXPECT_EQ(stream_->graphs().kept, 4u);
  EXPECT_EQ(stream_->graphs().failures, 2u);
  EXPECT_EQ(run(0), 1u);
}

// A warm-up has dozens of graphs, and runs once more when the group's slice changes.
TEST_F(GraphMemory, OneLineSaysThatItIsUsedUp) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(log::reopen());  // standard error is another file
  for (uint32_t batch = 0; batch < 8; ++batch) {
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream_->launch(kernels::ToF32{
          .x = out_->data(), .out = reinterpret_cast<float*>(out_->data()), .count = 1 + batch});
    const uint64_t before = simt::counts().launches;
    ASSERT_TRUE(stream_->warm_up());
    if (batch >= 4) {
      EXPECT_EQ(simt::counts().launches, before) << "nothing is captured";
    }
  }
  const std::string text = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(log::reopen());
  const size_t first = text.find("memory for CUDA graphs is used up");
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("CUDA graph", first + 30), std::string::npos) << text;
}

}  // namespace
}  // namespace itif::device
