// Graphs that are captured before their launches have run: CUDA and cuBLAS load a kernel at its
// first use, which a capture does not survive. tests/gpu runs these on a GPU, too.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device_fixture.h"
#include "numbers.h"

namespace itif::device {
namespace {

class FirstCapture : public CudaDevice {
 protected:
  static constexpr uint32_t kRows = 64, kDepth = 64, kTenants = 4;
  static constexpr uint32_t kWidths[] = {24, 64, 136};

  FirstCapture() {
    weights_ = device_->reserve_slab(kWidths[2] * kDepth * sizeof(float), kTenants).value();
    numbers_ = device_->allocate(kRows * kDepth * sizeof(float)).value();
    upload_numbers(*device_, numbers_->data(), kRows * kDepth);
    for (const uint32_t width : kWidths) {
      prepared_.push_back(
          device_->prepare({.n = width, .k = kDepth, .has_bias = false}, kRows).value());
      outs_.push_back(device_->allocate(kRows * width * sizeof(float)).value());
    }
  }
  // Launches a segment of GEMMs and of kernels of ours.
  void launch(Stream& stream, const std::vector<kernels::RowRange>& ranges,
              kernels::GemmMode mode) {
    for (size_t i = 0; i < prepared_.size(); ++i) {
      stream.launch(kernels::GroupedGemm{.a = numbers_->data(),
                                         .weights = weights_->slab(),
                                         .bias = {},
                                         .out = outs_[i]->data(),
                                         .n = kWidths[i],
                                         .k = kDepth,
                                         .ranges = ranges,
                                         .schedule = mode,
                                         .prepared = prepared_[i].get()});
      for (int layer = 0; layer < 3; ++layer)
        stream.launch(kernels::ToF32{.x = outs_[i]->data(),
                                     .out = reinterpret_cast<float*>(outs_[i]->data()),
                                     .count = kRows * kWidths[i]});
    }
    stream.end_graph_segment();
  }
  std::vector<float> results(Stream& stream) {
    std::vector<float> got(kRows * kWidths[2]);
    stream.copy_to_host(outs_[2]->data(), got.size() * sizeof(float), got.data());
    EXPECT_TRUE(stream.synchronize());
    return got;
  }

  std::unique_ptr<SlabMemory> weights_;  // no slot is committed
  std::unique_ptr<Buffer> numbers_;
  std::vector<GemmHandle> prepared_;
  std::vector<std::unique_ptr<Buffer>> outs_;
};

// No tenant has weights yet: no GEMM may read at their addresses.
TEST_F(FirstCapture, LoadsKernelsOfPointerCallsFirst) {
  const std::vector<kernels::RowRange> padding = {{0, 16, 0},
                                                  {16, 16, 0},
                                                  {32, 16, 0},
                                                  {48, 16, 0}},
                                       ranges = {{0, 16, 2}, {16, 16, 0}, {32, 16, 3}, {48, 16, 1}};
  launch(*stream_, padding, kernels::GemmMode::kConcurrent);
  ASSERT_TRUE(stream_->warm_up());
  EXPECT_EQ(stream_->graphs().kept, 1u);
  EXPECT_EQ(stream_->graphs().failures, 0u);
  for (uint32_t slot = 0; slot < kTenants; ++slot) {
    ASSERT_TRUE(weights_->commit(slot));
    upload_numbers(*device_, weights_->slab().at(slot), kWidths[2] * kDepth, slot + 1);
  }
  launch(*stream_, ranges, kernels::GemmMode::kConcurrent);
  const std::vector<float> got = results(*stream_);
  EXPECT_EQ(stream_->graphs().launches, 1u);
  const auto plain = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
  plain->use_graphs(false);
  launch(*plain, ranges, kernels::GemmMode::kConcurrent);
  EXPECT_EQ(got, results(*plain));
}

TEST_F(FirstCapture, LoadsKernelsOfSingleCallsFirst) {
  const std::vector<kernels::RowRange> ranges = {{0, 20, 1}, {20, 4, 0}, {24, 40, 2}};
  launch(*stream_, ranges, kernels::GemmMode::kSequential);
  ASSERT_TRUE(stream_->warm_up());
  EXPECT_EQ(stream_->graphs().kept, 1u);
  EXPECT_EQ(stream_->graphs().failures, 0u);
}

// A replay may read the sizes of a grouped call on the host, when the next batch is already
// prepared.
TEST_F(FirstCapture, ReplaysKeepTheSizesOfGroupedCalls) {
  for (uint32_t slot = 0; slot < kTenants; ++slot) {
    ASSERT_TRUE(weights_->commit(slot));
    upload_numbers(*device_, weights_->slab().at(slot), kWidths[2] * kDepth, slot + 1);
  }
  const std::vector<std::vector<kernels::RowRange>> batches = {{{0, 20, 0}, {20, 44, 1}},
                                                               {{0, 50, 2}, {50, 14, 3}}};
  std::vector<std::vector<float>> expected;
  const auto plain = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
  plain->use_graphs(false);
  for (const auto& ranges : batches) {
    launch(*plain, ranges, kernels::GemmMode::kConcurrent);
    expected.push_back(results(*plain));
  }
  EXPECT_NE(expected[0], expected[1]);
  for (int turn = 0; turn < 6; ++turn) {
    std::vector<std::vector<float>> got(2, std::vector<float>(kRows * kWidths[2]));
    Stream::Event events[2];
    for (size_t i = 0; i < batches.size(); ++i) {
      launch(*stream_, batches[i], kernels::GemmMode::kConcurrent);
      stream_->copy_to_host(outs_[2]->data(), got[i].size() * sizeof(float), got[i].data());
      events[i] = stream_->record();
    }
    for (const Stream::Event event : events) ASSERT_TRUE(stream_->wait(event).status);
    EXPECT_EQ(got, expected) << "turn " << turn;
  }
  EXPECT_EQ(stream_->graphs().kept, 2u);
}

}  // namespace
}  // namespace itif::device
