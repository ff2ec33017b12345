// Counts and times of the metered stream, which forwards every launch.
#include "device/stream/metered_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "ticking_clock.h"

namespace itif::device {
namespace {

class MeteredStreamTest : public ::testing::Test {
 protected:
  std::byte* floats(size_t count) {
    buffers_.push_back(device_->allocate(count * sizeof(float)).value());
    return buffers_.back()->data();
  }
  void bias_activation(float* x, float* bias) {
    const kernels::RowRange range{0, 1, 0};
    stream_->launch(kernels::BiasActivation{.x = x,
                                            .bias = {reinterpret_cast<std::byte*>(bias), 0},
                                            .width = 1,
                                            .ranges = {&range, 1}});
  }

  TickingClock clock_;
  std::unique_ptr<Device> device_ =
      open_device({.kind = "host", .dtype = "f32", .num_threads = 1}).value();
  std::unique_ptr<MeteredStream> stream_ =
      std::make_unique<MeteredStream>(device_->make_stream().value(), clock_);
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

TEST_F(MeteredStreamTest, CountsAndTimesLaunches) {
  float x = 1, bias = 2;
  bias_activation(&x, &bias);
  bias_activation(&x, &bias);
  float copied = 0;
  stream_->copy_to_host(&x, sizeof x, &copied);
  EXPECT_TRUE(stream_->synchronize());
  EXPECT_EQ(copied, 5);
  EXPECT_EQ(stream_->of("bias_activation").launches, 2u);
  EXPECT_EQ(stream_->of("bias_activation").call_ns, 2u);
  EXPECT_EQ(stream_->total().launches, 2u);
  EXPECT_EQ(stream_->total().call_ns, 2u);
  EXPECT_EQ(stream_->of("softmax").launches, 0u);
  EXPECT_EQ(stream_->of("no such operator").launches, 0u);
  stream_->clear();
  EXPECT_EQ(stream_->total().launches, 0u);
  EXPECT_EQ(stream_->total().call_ns, 0u);
}

TEST_F(MeteredStreamTest, SequentialGemmsCountALaunchPerRange) {
  const GemmShape shape{.n = 4, .k = 4, .has_bias = false};
  const GemmHandle prepared = device_->prepare(shape, 8).value();
  const kernels::RowRange ranges[] = {{0, 3, 0}, {3, 0, 0}, {3, 2, 0}};
  kernels::GroupedGemm args{.a = floats(100),
                            .weights = {floats(1000), 0},
                            .bias = {},
                            .out = floats(100),
                            .n = 4,
                            .k = 4,
                            .ranges = ranges,
                            .prepared = prepared.get()};
  stream_->launch(args);
  EXPECT_EQ(stream_->of("gemm").launches, 2u);
  args.schedule = kernels::GemmMode::kConcurrent;
  stream_->launch(args);
  EXPECT_EQ(stream_->of("gemm").launches, 3u);
  // Concurrent GEMMs count as many launches as separate ones, in one call.
  const uint64_t call_ns = stream_->of("gemm").call_ns;
  std::array three = {args, args, args};
  for (kernels::GroupedGemm& one : three) one.out = floats(100);
  stream_->launch(kernels::GroupedGemms{three});
  EXPECT_EQ(stream_->of("gemm").launches, 6u);
  EXPECT_EQ(stream_->of("gemm").call_ns, call_ns + 1);
  EXPECT_TRUE(stream_->synchronize());
}

TEST_F(MeteredStreamTest, BatchedGemmsCountALaunchPerShape) {
  const kernels::MatrixBatch batches[] = {{.m = 1, .n = 1, .k = 1, .count = 5},
                                          {.m = 2, .n = 1, .k = 2, .count = 2}};
  stream_->launch(kernels::BatchedGemm{
      .a = floats(20), .b = floats(20), .out = floats(20), .batches = batches});
  EXPECT_EQ(stream_->of("batched_gemm").launches, 2u);
}

// Meters an asynchronous stream.
class OperatorsOnADevice : public MeteredStreamTest {
 protected:
  OperatorsOnADevice() {
    auto asynchronous = device_->make_stream({}, {.is_async = true, .clock = &clock_}).value();
    stream_ = std::make_unique<MeteredStream>(std::move(asynchronous), clock_,
                                              MeteredStream::Times::kOnDevice);
  }
};

TEST_F(OperatorsOnADevice, EachCallRunsAndTimesItsOperator) {
  float x = 1, bias = 2, copied = 0;
  bias_activation(&x, &bias);
  EXPECT_EQ(x, 3);
  bias_activation(&x, &bias);
  EXPECT_EQ(x, 5);
  stream_->copy_to_host(&x, sizeof x, &copied);
  EXPECT_EQ(copied, 5);
  EXPECT_EQ(stream_->of("bias_activation").launches, 2u);
  EXPECT_GE(stream_->of("bias_activation").call_ns, 2u);
  EXPECT_GE(stream_->of("bias_activation").device_ns, 2u);
  EXPECT_EQ(stream_->total().device_ns, stream_->of("bias_activation").device_ns);
  const uint64_t of_operators_ns = stream_->total().device_ns;
  const Stream::Event first = stream_->record(), second = stream_->record();
  EXPECT_TRUE(stream_->is_done(first) && stream_->inputs_read(second));
  const Stream::Completion done = stream_->wait(first);
  EXPECT_TRUE(done.status);
  EXPECT_GT(done.device_ns, of_operators_ns) << "includes the copy";
  EXPECT_EQ(stream_->wait(second).device_ns, 0u);
  EXPECT_FALSE(stream_->warm_up()) << "operators run, nothing is captured";
  stream_->clear();
  EXPECT_EQ(stream_->total().device_ns, 0u);
}

TEST_F(OperatorsOnADevice, AFailureIsReportedAtTheNextEvent) {
  float x = 1, bias = 2;
  const kernels::RowRange range{0, 1, 0};
  stream_->launch(kernels::GroupedGemm{.a = floats(16),
                                       .weights = {floats(16), 0},
                                       .bias = {},
                                       .out = floats(16),
                                       .n = 4,
                                       .k = 4,
                                       .ranges = {&range, 1},
                                       .prepared = nullptr});
  bias_activation(&x, &bias);
  const Stream::Event failed = stream_->record();
  bias_activation(&x, &bias);
  const Stream::Event good = stream_->record();
  EXPECT_FALSE(stream_->wait(failed).status);
  EXPECT_TRUE(stream_->wait(good).status);
  EXPECT_EQ(x, 5);
}

}  // namespace
}  // namespace itif::device
