// The CUDA device adds biases and activations in cuBLASLt's epilogues, in the launch that reads the
// result, or in a separate launch.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "device/cuda/device.h"
#include "runtime.h"

namespace itif::device {
namespace {

// A bias takes a separate launch only if no reader fuses it.
TEST(CudaBias, IsFusedIntoNextReader) {
  const auto device = open_cuda_device({.kind = "cuda", .dtype = "bf16"}).value();
  const auto stream = device->make_stream({.max_tokens = 64, .max_segments = 8}).value();
  const auto memory = device->allocate(1 << 20).value();
  std::byte* const at = memory->data();
  const kernels::RowRange ranges[] = {{0, 20, 0}, {20, 20, 0}};
  const kernels::SegmentRows segments[] = {{0, 20}, {20, 20}};
  const auto launches = [&](uint32_t n, const std::function<void(std::byte*)>& reader) {
    const auto prepared = device->prepare({.n = n, .k = 64}, 40).value();
    stream->launch(kernels::GroupedGemms{
        std::vector<kernels::GroupedGemm>{{.a = at,
                                           .weights = {at, 0},
                                           .bias = {at, 0},
                                           .out = at + 65536,
                                           .n = n,
                                           .k = 64,
                                           .ranges = ranges,
                                           .schedule = kernels::GemmMode::kConcurrent,
                                           .prepared = prepared.get()}}});
    const uint64_t before = simt::counts().launches;
    reader(at + 65536);
    EXPECT_TRUE(stream->synchronize());
    return simt::counts().launches - before - 1;  // without the copy of the plan
  };
  const auto attention = [&](uint32_t heads, uint32_t head_size) {
    return [&, heads, head_size](std::byte* x) {
      stream->launch(kernels::Attention{.qkv = x,
                                        .out = at + 262144,
                                        .segments = segments,
                                        .num_heads = heads,
                                        .head_size = head_size,
                                        .scale = 1});
    };
  };
  const auto layer_norm = [&](std::byte* x) {
    stream->launch(kernels::ResidualLayerNorm{.x = x,
                                              .residual = at,
                                              .gamma = {at, 0},
                                              .beta = {at, 0},
                                              .hidden = 192,
                                              .ranges = ranges,
                                              .out = at + 262144});
  };
  const auto to_f32 = [&](std::byte*) {
    stream->launch(
        kernels::ToF32{.x = at, .out = reinterpret_cast<float*>(at + 524288), .count = 4});
  };
  EXPECT_EQ(launches(192, attention(2, 32)), 2u);
  EXPECT_EQ(launches(192, layer_norm), 2u);
  EXPECT_EQ(launches(192, to_f32), 3u);
  EXPECT_EQ(launches(192, attention(8, 8)), 3u) << "not on tensor cores";
  EXPECT_EQ(launches(384, attention(2, 32)), 3u) << "another width";
  EXPECT_EQ(launches(192,
                     [&](std::byte* x) {
                       to_f32(x);
                       layer_norm(x);
                     }),
            4u);
}

using kernels::Activation;

class CudaEpilogue : public ::testing::Test {
 protected:
  struct Case {
    GemmShape shape = {.n = 64, .k = 32};
    uint32_t prepared_rows = 64;
    std::vector<kernels::RowRange> ranges = {{0, 20, 0}, {20, 20, 1}};
    kernels::GemmMode mode = kernels::GemmMode::kSequential;
  };
  void open(const char* dtype) {
    stream_.reset();
    memory_.reset();
    device_ = open_cuda_device({.kind = "cuda", .dtype = dtype}).value();
    stream_ = device_->make_stream({.max_tokens = 64, .max_segments = 8}).value();
    memory_ = device_->allocate(1 << 20).value();
  }
  GemmHandle prepare(const Case& c) { return device_->prepare(c.shape, c.prepared_rows).value(); }
  void launch(const Case& c, const GemmHandle& prepared) {
    const bool has_bias = c.shape.has_bias;
    stream_->launch(kernels::GroupedGemm{.a = memory_->data(),
                                         .weights = {memory_->data(), 32768},
                                         .bias = {has_bias ? memory_->data() : nullptr, 0},
                                         .out = memory_->data() + 262144,
                                         .n = c.shape.n,
                                         .k = c.shape.k,
                                         .activation = c.shape.activation,
                                         .ranges = c.ranges,
                                         .schedule = c.mode,
                                         .prepared = prepared.get(),
                                         .f32_out = c.shape.f32_out});
  }
  uint64_t epilogues(const Case& c) {
    const GemmHandle prepared = prepare(c);
    const uint64_t before = simt::counts().epilogues;
    launch(c, prepared);
    EXPECT_TRUE(stream_->synchronize());
    return simt::counts().epilogues - before;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> memory_;
};

TEST_F(CudaEpilogue, IsUsedForEquivalentActivations) {
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    open(dtype);
    const bool is_narrow = dtype != std::string_view("f32");
    const auto count = [&](Activation activation, bool has_bias) {
      return epilogues(
          {.shape = {.n = 64, .k = 32, .activation = activation, .has_bias = has_bias}});
    };
    EXPECT_EQ(count(Activation::kNone, true), 2u) << dtype;
    EXPECT_EQ(count(Activation::kNone, false), 0u) << dtype;
    for (const bool has_bias : {true, false}) {
      EXPECT_EQ(count(Activation::kRelu, has_bias), 2u) << dtype;
      EXPECT_EQ(count(Activation::kGeluTanh, has_bias), is_narrow ? 2u : 0u) << dtype;
      for (const Activation other : {Activation::kGelu, Activation::kTanh, Activation::kSilu})
        EXPECT_EQ(count(other, has_bias), 0u) << dtype;
    }
    EXPECT_EQ(epilogues({.shape = {.n = 64, .k = 32, .f32_out = true}}), 2u) << dtype;
  }
}

TEST_F(CudaEpilogue, IsNotUsedForUnsupportedCases) {
  open("bf16");
  EXPECT_EQ(epilogues({.ranges = {{0, 40, 1}}}), 1u);
  EXPECT_EQ(epilogues({.ranges = {{0, 16, 1}, {16, 16, 0}}, .mode = kernels::GemmMode::kPointers}),
            0u)
      << "a graph bucket, by pointers";
  EXPECT_EQ(epilogues({.mode = kernels::GemmMode::kConcurrent}), 0u) << "two tenants concurrently";
  EXPECT_EQ(epilogues({.ranges = {{0, 0, 0}, {0, 20, 1}}}), 1u) << "none for an empty range";
  EXPECT_EQ(epilogues({.shape = {.n = 5, .k = 7}}), 0u) << "cuBLASLt has no algorithm";
  EXPECT_EQ(epilogues({.prepared_rows = 8, .ranges = {{0, 40, 0}}}), 0u)
      << "more rows than prepared";
  EXPECT_EQ(epilogues({.prepared_rows = 8, .ranges = {{0, 9, 0}}}), 1u)
      << "rows within the prepared rung";
  EXPECT_EQ(epilogues({.ranges = {{0, 29, 0}}}), 1u)
      << "the rung's algorithm refuses this many rows";
}

// Epilogues are captured like any other launch. After prepare() nothing is searched for or
// allocated.
TEST_F(CudaEpilogue, IsCapturedIntoGraph) {
  open("bf16");
  std::vector<Case> cases;
  std::vector<GemmHandle> prepared;
  for (uint32_t n = 8; n <= 48; n += 8) {
    cases.push_back({.shape = {.n = n, .k = 32, .activation = Activation::kRelu}});
    prepared.push_back(prepare(cases.back()));
  }
  const auto again = [&] {
    const uint64_t before = simt::counts().epilogues;
    for (size_t i = 0; i < cases.size(); ++i) launch(cases[i], prepared[i]);
    EXPECT_TRUE(stream_->synchronize());
    return simt::counts().epilogues - before;
  };
  EXPECT_EQ(again(), 12u);
  EXPECT_EQ(again(), 12u);  // captures the graph
  const uint64_t allocations = simt::counts().allocations;
  EXPECT_EQ(again(), 0u);  // replays it
  EXPECT_EQ(simt::counts().allocations, allocations);
}

}  // namespace
}  // namespace itif::device
