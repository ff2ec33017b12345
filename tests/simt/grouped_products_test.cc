// Calls for several tenants, by pointers and grouped: what their first run, their capture and the
// graph's replays compute. cuBLAS's manual does not say what a captured grouped call reads again,
// so tools/gpu-check runs these first.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device_fixture.h"
#include "numbers.h"

namespace itif::device {
namespace {

class GroupedProducts : public CudaDevice {
 protected:
  using Ranges = std::vector<kernels::RowRange>;
  static constexpr uint32_t kRows = 64, kDepth = 64, kWidth = 24, kTenants = 3;
  static constexpr uint32_t kLaunches = 10;  // enough for a graph

  GroupedProducts() {
    constexpr size_t kCount = (kRows + kTenants * kWidth) * kDepth;
    numbers_ = device_->allocate(kCount * sizeof(float)).value();
    upload_numbers(*device_, numbers_->data(), kCount);
    prepared_ = device_->prepare({.n = kWidth, .k = kDepth, .has_bias = false}, kRows).value();
    for (uint32_t i = 0; i < kLaunches; ++i)
      outs_.push_back(device_->allocate(kRows * kWidth * sizeof(float)).value());
    plain_ = device_->make_stream({.max_tokens = kRows, .max_segments = 8}).value();
    plain_->use_graphs(false);
  }
  // The last launch's results.
  std::vector<float> run(Stream& stream, const Ranges& ranges, kernels::GemmMode mode) {
    for (const auto& out : outs_)
      stream.launch(
          kernels::GroupedGemm{.a = numbers_->data(),
                               .weights = {numbers_->data() + kRows * kDepth * sizeof(float),
                                           kWidth * kDepth * sizeof(float)},
                               .bias = {},
                               .out = out->data(),
                               .n = kWidth,
                               .k = kDepth,
                               .ranges = ranges,
                               .schedule = mode,
                               .prepared = prepared_.get()});
    std::vector<float> got(kRows * kWidth);
    stream.copy_to_host(outs_.back()->data(), got.size() * sizeof(float), got.data());
    EXPECT_TRUE(stream.synchronize());
    return got;
  }
  // Runs the batches in turn until each is a replayed graph.
  void expect_the_same_as_alone(const std::vector<Ranges>& batches, uint64_t graphs) {
    std::vector<std::vector<float>> alone;
    for (const Ranges& ranges : batches)
      alone.push_back(run(*plain_, ranges, kernels::GemmMode::kSequential));
    for (int turn = 0; turn < 5; ++turn)
      for (size_t i = 0; i < batches.size(); ++i)
        ASSERT_EQ(run(*stream_, batches[i], kernels::GemmMode::kConcurrent), alone[i])
            << "turn " << turn << ", batch " << i;
    EXPECT_EQ(stream_->graphs().kept, graphs);
    EXPECT_EQ(stream_->graphs().failures, 0u);
    EXPECT_GE(stream_->graphs().launches, 3 * batches.size());
  }

  std::unique_ptr<Buffer> numbers_;  // [kRows, kDepth], then the weights
  GemmHandle prepared_;
  std::vector<std::unique_ptr<Buffer>> outs_;
  std::unique_ptr<Stream> plain_;
};

// The batches differ in sizes and tenants: the first two only in the sizes of later ranges, the
// first and the last only in tenants.
TEST_F(GroupedProducts, ReplaysOfUnequalRangesAreRight) {
  expect_the_same_as_alone({{{0, 20, 0}, {20, 20, 1}, {40, 24, 2}},
                            {{0, 20, 0}, {20, 24, 1}, {44, 20, 2}},
                            {{0, 50, 1}, {50, 6, 0}, {56, 8, 2}},
                            {{0, 20, 2}, {20, 20, 0}, {40, 24, 1}}},
                           3);
}

TEST_F(GroupedProducts, ReplaysOfEqualRangesAreRight) {
  expect_the_same_as_alone({{{0, 16, 0}, {16, 16, 1}, {32, 16, 2}, {48, 16, 1}},
                            {{0, 32, 2}, {32, 32, 0}},
                            {{0, 64, 1}},
                            {{0, 16, 2}, {16, 16, 2}, {32, 16, 0}, {48, 16, 1}}},
                           3);
}

}  // namespace
}  // namespace itif::device
