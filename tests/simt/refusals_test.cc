// Calls that cuBLAS refuses: simpler ones compute the same, and the refusal is remembered. A plain
// GEMM that it refuses fails the model's loading or the batch, but not the device.
#include "device/cuda/gemm/refusals.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/device.h"
#include "product.h"

namespace itif::device {
namespace {

using kernels::Activation;
using kernels::GemmMode;
using Ranges = std::vector<kernels::RowRange>;
using simt::Call;

// Launches are the same GEMM, often enough for a graph. Sums of such whole numbers are exact in all
// types.
class RefusedCalls : public ::testing::Test {
 protected:
  static constexpr uint32_t kRows = 1024, kDepth = 16, kWidth = 24, kTenants = 4, kLaunches = 8;

  void open(const char* dtype, const GemmShape& shape) {
    streams_.clear();
    prepared_.reset();
    out_.reset();
    bias_.reset();
    weights_.reset();
    a_.reset();
    device_ = open_cuda_device({.kind = "cuda", .dtype = dtype}).value();
    shape_ = shape;
    const DType type = device_->info().compute.activations;
    a_ = numbers(kRows * kDepth, type, 0);
    const size_t stride = device_->packed_bytes(shape).value();
    weights_ = device_->allocate(kTenants * stride).value();
    slab_ = {weights_->data(), stride};
    bias_ = numbers(kTenants * kWidth, DType::kF32, 5);
    for (uint32_t i = 0; i < kTenants; ++i) {
      const std::vector<float> weight = values(kWidth * kDepth, i + 1);
      const TensorView views[] = {view(weight, Shape{kWidth, kDepth})};
      EXPECT_TRUE(device_->pack(shape, views, slab_.at(i)));
      const std::vector<float> bias = values(kTenants * kWidth, 5);
      const TensorView biases[] = {{reinterpret_cast<const std::byte*>(bias.data() + i * kWidth),
                                    DType::kF32, Shape{kWidth}}};
      if (shape.has_bias) {
        EXPECT_TRUE(device_->pack_bias(shape, biases, slab_.at(i)));
      }
    }
    out_ = device_->allocate(kLaunches * kRows * kWidth * sizeof(float)).value();
    prepared_ = device_->prepare(shape, kRows).value();
  }
  static std::vector<float> values(size_t count, size_t seed) {
    std::vector<float> made(count);
    for (size_t i = 0; i < count; ++i)
      made[i] = static_cast<float>((i * 37 + seed * 11) % 101 % 5) - 2;
    return made;
  }
  static TensorView view(const std::vector<float>& values, const Shape& shape) {
    return {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, shape};
  }
  std::unique_ptr<Buffer> numbers(size_t count, DType type, size_t seed) {
    auto made = device_->allocate(count * sizeof(float)).value();
    EXPECT_TRUE(device_->upload(view(values(count, seed), Shape{count}), type, made->data()));
    return made;
  }
  Stream& stream() {
    return *streams_.emplace_back(
        device_->make_stream({.max_tokens = kRows, .max_segments = 8}).value());
  }
  void launch(Stream& stream, const Ranges& ranges, const kernels::GemmSchedule& schedule) {
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream.launch(kernels::GroupedGemm{
          .a = a_->data(),
          .weights = slab_,
          .bias = {shape_.has_bias ? bias_->data() : nullptr, kWidth * sizeof(float)},
          .out = out_->data() + i * kRows * kWidth * sizeof(float),
          .n = kWidth,
          .k = kDepth,
          .activation = shape_.activation,
          .ranges = ranges,
          .schedule = schedule,
          .prepared = prepared_.get(),
          .f32_out = shape_.f32_out});
  }
  // The bytes of the last launch.
  std::vector<std::byte> run(Stream& stream, const Ranges& ranges,
                             const kernels::GemmSchedule& schedule) {
    launch(stream, ranges, schedule);
    std::vector<std::byte> got(kRows * kWidth * sizeof(float));
    stream.copy_to_host(out_->data() + (kLaunches - 1) * got.size(), got.size(), got.data());
    const Status done = stream.synchronize();
    EXPECT_TRUE(done) << done.error().message;
    return got;
  }
  // Runs two batches without refusals, then in turn while cuBLAS refuses `call`: from the first
  // batch on, and from the capture of a graph on.
  void expect_the_same(Call call, const std::vector<Ranges>& batches,
                       const kernels::GemmSchedule& schedule,
                       cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED) {
    std::vector<std::vector<std::byte>> expected;
    Stream& accepted = this->stream();
    for (const Ranges& ranges : batches) expected.push_back(run(accepted, ranges, schedule));
    EXPECT_EQ(accepted.refused_gemms(), 0u);
    if (batches.size() > 1) {
      EXPECT_NE(expected[0], expected[1]);
    }
    for (const bool from_the_start : {true, false}) {
      Stream& stream = this->stream();
      if (!from_the_start) {
        EXPECT_EQ(run(stream, batches[0], schedule), expected[0]);
      }
      const simt::Refused refused({call}, status);
      for (int turn = 0; turn < 5; ++turn)
        for (size_t i = 0; i < batches.size(); ++i)
          EXPECT_EQ(run(stream, batches[i], schedule), expected[i])
              << "turn " << turn << ", batch " << i;
      // An epilogue is tried with the rung's algorithm, and with one for these rows.
      EXPECT_EQ(refused.count(), call == Call::kWithEpilogue ? 2u : 1u) << "remembered";
      EXPECT_EQ(stream.refused_gemms(), 1u);
      EXPECT_GT(stream.graphs().launches, 0u) << "simpler calls are replayed, too";
    }
  }

  std::unique_ptr<Device> device_;
  GemmShape shape_;
  kernels::Slab slab_;  // of the weights
  std::unique_ptr<Buffer> a_, weights_, bias_, out_;
  GemmHandle prepared_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

constexpr GemmShape kPlain = {.n = 24, .k = 16, .has_bias = false};

TEST_F(RefusedCalls, GroupedRangesRunInTurn) {
  open("f32", kPlain);
  const std::vector<Ranges> batches = {{{0, 20, 0}, {20, 44, 1}}, {{0, 20, 2}, {20, 44, 0}}};
  for (const cublasStatus_t status :
       {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_ARCH_MISMATCH})
    expect_the_same(Call::kGrouped, batches, GemmMode::kConcurrent, status);
}
TEST_F(RefusedCalls, EqualRangesByPointersRunInTurn) {
  for (const char* dtype : {"f32", "bf16"}) {
    open(dtype, kPlain);
    expect_the_same(Call::kByPointers, {{{0, 16, 0}, {16, 16, 1}}, {{0, 16, 3}, {16, 16, 2}}},
                    GemmMode::kConcurrent);
  }
}
TEST_F(RefusedCalls, StridedRangesRunInTurn) {
  for (const char* dtype : {"f32", "bf16"}) {
    open(dtype, kPlain);
    expect_the_same(
        Call::kStrided,
        {{{0, 300, 0}, {300, 300, 1}, {600, 300, 2}}, {{0, 300, 1}, {300, 300, 2}, {600, 300, 3}}},
        GemmMode::kConcurrent);
  }
}
// Our kernel adds what the epilogue would have, by the tenant's own bias.
TEST_F(RefusedCalls, EpiloguesAreALaunchOfTheirOwn) {
  const std::vector<Ranges> batches = {{{0, 20, 1}, {20, 44, 2}}, {{0, 20, 3}, {20, 44, 0}}};
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const GemmShape& shape :
         {GemmShape{.n = 24, .k = 16},
          {.n = 24, .k = 16, .activation = Activation::kRelu},
          {.n = 24, .k = 16, .f32_out = true},
          {.n = 24, .k = 16, .activation = Activation::kRelu, .has_bias = false}}) {
      open(dtype, shape);
      expect_the_same(Call::kWithEpilogue, batches, GemmMode::kSequential);
    }
}

// Captures of pointer calls precede tenants: no simpler call may read their weights then.
TEST_F(RefusedCalls, WarmUpOutlivesThem) {
  open("f32", kPlain);
  const Ranges ranges = {{0, 16, 1}, {16, 16, 0}};
  const auto expected = run(stream(), ranges, GemmMode::kConcurrent);
  const auto empty = device_->reserve_slab(slab_.stride_bytes, kTenants).value();
  const kernels::Slab slab = std::exchange(slab_, empty->slab());
  Stream& stream = this->stream();
  const simt::Refused refused({Call::kByPointers});
  launch(stream, ranges, GemmMode::kConcurrent);
  ASSERT_TRUE(stream.warm_up());
  EXPECT_EQ(stream.graphs().kept, 0u);
  slab_ = slab;
  for (int turn = 0; turn < 3; ++turn)
    EXPECT_EQ(run(stream, ranges, GemmMode::kConcurrent), expected) << turn;
  EXPECT_EQ(refused.count(), 1u);
}

// Attention of the thesis fusion mode.
TEST_F(RefusedCalls, ProductsOfActivationsRunInTurn) {
  open("bf16", kPlain);
  constexpr uint32_t kHeads = 3, kLength = 12, kHeadSize = 8;
  const kernels::MatrixBatch scores = {.m = kLength, .n = kLength, .k = kHeadSize, .count = kHeads},
                             contexts = {
                                 .m = kLength, .n = kHeadSize, .k = kLength, .count = kHeads};
  const auto run = [&](Stream& stream, bool is_b_transposed) {
    const kernels::MatrixBatch& batch = is_b_transposed ? scores : contexts;
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream.launch(kernels::BatchedGemm{.a = a_->data(),
                                         .b = weights_->data(),
                                         .is_b_transposed = is_b_transposed,
                                         .out = out_->data(),
                                         .batches = {&batch, 1}});
    std::vector<std::byte> got(kHeads * kLength * kLength * sizeof(uint16_t));
    stream.copy_to_host(out_->data(), got.size(), got.data());
    EXPECT_TRUE(stream.synchronize());
    return got;
  };
  for (const bool is_b_transposed : {true, false}) {
    const auto expected = run(stream(), is_b_transposed);
    Stream& stream = this->stream();
    const simt::Refused refused({Call::kStrided});
    for (int turn = 0; turn < 4; ++turn) EXPECT_EQ(run(stream, is_b_transposed), expected) << turn;
    EXPECT_EQ(refused.count(), 1u);
    EXPECT_EQ(stream.refused_gemms(), 1u);
    EXPECT_GT(stream.graphs().launches, 0u);
  }
}

TEST_F(RefusedCalls, NamePlainGemmsWhenAModelIsLoaded) {
  open("bf16", kPlain);
  const GemmShape other = {.n = 40, .k = 48};
  {
    const simt::Refused refused({Call::kSingle});
    EXPECT_TRUE(device_->prepare(kPlain, 8)) << "tried before";
    const auto prepared = device_->prepare(other, 8);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, Code::kUnsupported);
    for (const char* part : {"40 × 48", "bf16", "CUBLAS_STATUS_NOT_SUPPORTED"})
      EXPECT_NE(prepared.error().message.find(part), std::string::npos) << prepared.error().message;
  }
  EXPECT_TRUE(device_->prepare(other, 8));
}

TEST_F(RefusedCalls, PlainGemmsFailTheBatchAlone) {
  open("f32", kPlain);
  const Ranges ranges = {{0, 20, 0}, {20, 44, 1}};
  Stream& stream = this->stream();
  const auto expected = run(stream, ranges, GemmMode::kSequential);
  for (int turn = 0; turn < 3; ++turn) {
    const simt::Refused refused({Call::kSingle, Call::kGrouped});
    launch(stream, ranges, GemmMode::kConcurrent);
    const Status done = stream.synchronize();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kUnsupported) << done.error().message;
    EXPECT_NE(done.error().message.find("24 × 16 for 20 rows: CUBLAS_STATUS_NOT_SUPPORTED"),
              std::string::npos)
        << done.error().message;
  }
  EXPECT_EQ(run(stream, ranges, GemmMode::kConcurrent), expected);
}

// Errors that are no refusals fail the device: simpler calls would fail, too.
TEST_F(RefusedCalls, FaultsAreNotRefusals) {
  open("f32", kPlain);
  const std::pair<Call, Ranges> cases[] = {
      {Call::kGrouped, {{0, 20, 0}, {20, 44, 1}}},
      {Call::kByPointers, {{0, 16, 0}, {16, 16, 1}}},
      {Call::kStrided, {{0, 300, 0}, {300, 300, 1}}},
  };
  for (const auto& [call, ranges] : cases) {
    Stream& stream = this->stream();
    const simt::Refused refused({call}, CUBLAS_STATUS_EXECUTION_FAILED);
    launch(stream, ranges, GemmMode::kConcurrent);
    const Status done = stream.synchronize();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kInternal) << done.error().message;
    EXPECT_EQ(stream.refused_gemms(), 0u);
  }
}

}  // namespace
}  // namespace itif::device
