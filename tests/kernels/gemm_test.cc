// GEMMs grouped by tenant, with prepacked weights.
#include <algorithm>

#include "device/convert.h"
#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

// Divides ranges into calls of 1, 3, 2, 1, 3, 2, … of them.
std::vector<GemmCall> plan_calls(size_t num_ranges) {
  std::vector<GemmCall> calls;
  for (size_t first = 0; first < num_ranges; first += calls.back().num_ranges) {
    constexpr uint32_t kSizes[] = {1, 3, 2};
    const auto left = static_cast<uint32_t>(num_ranges - first);
    calls.push_back({.num_ranges = std::min(kSizes[calls.size() % 3], left)});
  }
  return calls;
}

class GemmTest : public DeviceTest {
 protected:
  struct Case {
    uint32_t n = 0, k = 0;
    std::vector<uint32_t> rows_of;
    Activation activation = Activation::kNone;
    bool has_bias = true;
    bool f32_out = false;
  };
  void run(const Case& c);
  // One weight per slot, and its bias if there is one.
  Slab pack(const device::GemmShape& shape, const std::vector<std::vector<float>>& weights,
            const std::vector<std::vector<float>>& bias = {});
};
ITIF_DEVICE_SUITE(GemmTest);

Slab GemmTest::pack(const device::GemmShape& shape, const std::vector<std::vector<float>>& weights,
                    const std::vector<std::vector<float>>& bias) {
  auto slab = device_->reserve_slab(device_->packed_bytes(shape).value(),
                                    static_cast<uint32_t>(weights.size()));
  EXPECT_TRUE(slab);
  for (uint32_t slot = 0; slot < weights.size(); ++slot) {
    EXPECT_TRUE((*slab)->commit(slot));
    const TensorView view{reinterpret_cast<const std::byte*>(weights[slot].data()), DType::kF32,
                          Shape{shape.n, shape.k}};
    const Status status = device_->pack(shape, {&view, 1}, (*slab)->slab().at(slot));
    EXPECT_TRUE(status) << status.error().message;
    if (bias.empty()) continue;
    const TensorView of_bias{reinterpret_cast<const std::byte*>(bias[slot].data()), DType::kF32,
                             Shape{shape.n}};
    EXPECT_TRUE(device_->pack_bias(shape, {&of_bias, 1}, (*slab)->slab().at(slot)));
  }
  slabs_.push_back(std::move(*slab));
  return slabs_.back()->slab();
}

void GemmTest::run(const Case& c) {
  const uint32_t slots[] = {2, 0, 1};
  const auto ranges = make_ranges(c.rows_of, slots);
  const uint32_t rows = total_rows(ranges);
  std::vector<std::vector<float>> weights, bias;
  for (int s = 0; s < 3; ++s) {
    weights.push_back(random_activations(c.n * c.k, 1.0 / std::sqrt(c.k)));
    bias.push_back(random_activations(c.n));  // a device may keep it in that type
  }
  const device::GemmShape shape{
      .n = c.n, .k = c.k, .activation = c.activation, .has_bias = c.has_bias, .f32_out = c.f32_out};
  const auto prepared = device_->prepare(shape, std::max(1u, rows));
  ASSERT_TRUE(prepared) << prepared.error().message;

  // The slack holds NaNs in the rows past T. A GEMM may read them, but they must not reach the
  // results.
  const uint32_t slack = device_->row_slack();
  auto a = random_activations(rows * c.k);
  std::vector<float> a_and_slack = a;
  a_and_slack.resize((rows + slack) * c.k, std::nanf(""));
  GroupedGemm args{.a = upload_activations(a_and_slack),
                   .weights = pack(shape, weights, c.has_bias ? bias : decltype(bias)()),
                   .bias = c.has_bias ? upload_slab(bias, DType::kF32) : Slab{},
                   .n = c.n,
                   .k = c.k,
                   .activation = c.activation,
                   .ranges = ranges,
                   .prepared = prepared->get(),
                   .f32_out = c.f32_out};
  const DType type = c.f32_out ? DType::kF32 : activation();
  std::vector<double> expected;
  for (const RowRange& range : ranges) {
    const auto part = reference::linear(
        std::span(a).subspan(range.first_row * c.k, range.num_rows * c.k), weights[range.slot],
        c.has_bias ? std::span<const float>(bias[range.slot]) : std::span<const float>(),
        range.num_rows, c.n, c.k, c.activation);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  const std::vector<GemmCall> planned = plan_calls(ranges.size());
  std::vector<GemmSchedule> schedules = {GemmMode::kSequential, GemmMode::kConcurrent};
  if (!planned.empty()) schedules.push_back(GemmSchedule(planned));
  for (size_t i = 0; i < schedules.size(); ++i) {
    // Products of about 1/√k summed in f32 in any order, which errs by some ε·√k; then rounded
    // once, or twice if the activation is a second pass.
    const double sum_error = std::max(4e-6, 4e-7 * std::sqrt(c.k));
    const bool is_plain = !c.has_bias && c.activation == Activation::kNone;
    const bool is_once =
        is_plain || (i == 0 && c.n % 8 == 0 && c.k % 8 == 0 &&
                     (c.activation == Activation::kNone || c.activation == Activation::kRelu));
    const double units = is_once ? sequential_units() : gemm_units();
    const double tolerance = c.f32_out ? sum_error : units * unit() + sum_error;
    std::byte* out = make_output((rows + slack) * c.n, type);
    args.out = out;
    args.schedule = schedules[i];
    stream_->launch(args);
    expect_close(download(out, rows * c.n, type), expected, tolerance,
                 std::to_string(c.n) + " x " + std::to_string(c.k) +
                     (i == 0   ? " sequential"
                      : i == 1 ? " concurrent"
                               : " planned"));
  }
}

TEST_P(GemmTest, ShapesOfModels) {
  run({.n = 2304, .k = 768, .rows_of = {33}});
  run({.n = 768, .k = 768, .rows_of = {5, 11}});
  run({.n = 384, .k = 1536, .rows_of = {17, 1}});
}
TEST_P(GemmTest, OddSizes) {
  run({.n = 36, .k = 36, .rows_of = {7, 1, 2}});
  run({.n = 108, .k = 36, .rows_of = {13}});
  run({.n = 5, .k = 7, .rows_of = {3, 3}});
  run({.n = 1, .k = 20, .rows_of = {21}});
  run({.n = 37, .k = 72, .rows_of = {1}});
}
TEST_P(GemmTest, EveryRowCountOfTheLadder) {
  for (const uint32_t rows :
       {1u, 2u, 3u, 4u, 5u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u, 47u, 100u, 130u})
    run({.n = 64, .k = 48, .rows_of = {rows}});
}
TEST_P(GemmTest, MoreRowsThanTheLadder) {
  run({.n = 32, .k = 32, .rows_of = {512}});
  run({.n = 32, .k = 32, .rows_of = {513, 1030}});
  run({.n = 32, .k = 32, .rows_of = {3, 1021, 511}});
}
// A call may write past its range. The rows that follow must still come out right.
TEST_P(GemmTest, SurplusRowsDoNotReachOtherRanges) {
  run({.n = 48, .k = 32, .rows_of = std::vector<uint32_t>(70, 1)});
  run({.n = 48, .k = 32, .rows_of = {9, 1, 1, 1, 9, 1, 3, 17, 1, 1, 33, 2}});
  run({.n = 48, .k = 32, .rows_of = {0, 9, 0, 0, 1, 0}});
  run({.n = 48, .k = 32, .rows_of = {}});
}
TEST_P(GemmTest, ActivationsWithAndWithoutBias) {
  for (const Activation activation : {Activation::kNone, Activation::kGelu, Activation::kGeluTanh,
                                      Activation::kRelu, Activation::kTanh, Activation::kSilu})
    for (const bool has_bias : {true, false})
      for (const auto& [n, k] : {std::pair{50u, 36u}, {56u, 40u}})
        run({.n = n, .k = k, .rows_of = {4, 9, 1}, .activation = activation, .has_bias = has_bias});
}
TEST_P(GemmTest, ResultsInF32) {
  for (const bool has_bias : {true, false})
    run({.n = 101, .k = 36, .rows_of = {4, 9, 1, 17}, .has_bias = has_bias, .f32_out = true});
}

// GEMMs of different shapes over one input give the same results together as alone, whether all run
// sequentially, all concurrently, or some of each.
TEST_P(GemmTest, ConcurrentGemmsMatchSeparateOnes) {
  constexpr uint32_t kDepth = 36;
  constexpr uint32_t kWidths[] = {36, 50, 7};
  const uint32_t slots[] = {1, 0};
  const auto ranges = make_ranges(std::vector<uint32_t>{140, 9, 0, 1, 33}, slots);
  const uint32_t rows = total_rows(ranges), slack = device_->row_slack();
  const auto a = random_activations(rows * kDepth);
  const std::byte* input = upload_activations(a, slack * kDepth);
  std::vector<GroupedGemm> all;
  std::vector<device::GemmHandle> prepared;
  std::vector<std::vector<double>> expected;
  for (const uint32_t n : kWidths) {
    const Activation activation = n == 50 ? Activation::kRelu : Activation::kNone;
    const std::vector<std::vector<float>> weights = {random_activations(n * kDepth, 0.2),
                                                     random_activations(n * kDepth, 0.2)};
    const std::vector<float> bias = random_activations(n);
    const device::GemmShape shape{.n = n, .k = kDepth, .activation = activation};
    prepared.push_back(device_->prepare(shape, rows).value());
    all.push_back({.a = input,
                   .weights = pack(shape, weights, {bias, bias}),
                   .bias = upload_slab({bias, bias}, DType::kF32),
                   .n = n,
                   .k = kDepth,
                   .activation = activation,
                   .ranges = ranges,
                   .prepared = prepared.back().get()});
    expected.emplace_back();
    for (const RowRange& range : ranges) {
      const auto part =
          reference::linear(std::span(a).subspan(range.first_row * kDepth, range.num_rows * kDepth),
                            weights[range.slot], bias, range.num_rows, n, kDepth, activation);
      expected.back().insert(expected.back().end(), part.begin(), part.end());
    }
  }
  const ShapeMode middle[] = {{50, kDepth, GemmMode::kConcurrent}};
  const std::vector<GemmCall> planned = plan_calls(ranges.size());
  for (const GemmSchedule& modes :
       {GemmSchedule(GemmMode::kSequential), GemmSchedule(GemmMode::kConcurrent),
        GemmSchedule(middle, GemmMode::kSequential), GemmSchedule(planned)}) {
    for (GroupedGemm& args : all) {
      args.out = make_output((rows + slack) * args.n, activation());
      args.schedule = modes;
    }
    stream_->launch(kernels::GroupedGemms{all});
    for (size_t i = 0; i < all.size(); ++i)
      expect_close(download_activations(all[i].out, rows * all[i].n), expected[i],
                   gemm_units() * unit() + 4e-6, std::to_string(all[i].n) + " wide");
  }
  stream_->launch(kernels::GroupedGemms{});
  EXPECT_TRUE(stream_->synchronize());
  all[1].prepared = nullptr;
  stream_->launch(kernels::GroupedGemms{all});
  EXPECT_FALSE(stream_->synchronize());
}

// In bf16 GELU is a cheaper approximation. Checks the whole range of inputs, tails included.
TEST_P(GemmTest, GeluIsAccurateEverywhere) {
  // kWidth: a width that libraries with fused activations accept.
  constexpr uint32_t kRows = 401, kWidth = 8;
  std::vector<float> a(kRows * kWidth);
  // Inputs that bf16 represents exactly.
  for (uint32_t r = 0; r < kRows; ++r) a[kWidth * r] = (static_cast<float>(r) - 200.0f) / 16.0f;
  std::vector<std::vector<float>> weights = {std::vector<float>(kWidth * kWidth)};
  for (uint32_t i = 0; i < kWidth; ++i) weights[0][i * kWidth] = 1.0f;
  const device::GemmShape shape{
      .n = kWidth, .k = kWidth, .activation = Activation::kGelu, .has_bias = false};
  const auto prepared = device_->prepare(shape, kRows);
  ASSERT_TRUE(prepared);
  std::byte* out = make_output((kRows + device_->row_slack()) * kWidth, activation());
  const RowRange range{.first_row = 0, .num_rows = kRows, .slot = 0};
  stream_->launch(kernels::GroupedGemm{.a = upload_activations(a, device_->row_slack() * kWidth),
                                       .weights = pack(shape, weights),
                                       .bias = {},
                                       .out = out,
                                       .n = kWidth,
                                       .k = kWidth,
                                       .activation = Activation::kGelu,
                                       .ranges = {&range, 1},
                                       .prepared = prepared->get()});
  std::vector<double> expected;
  for (uint32_t r = 0; r < kRows; ++r)
    expected.push_back(reference::activate(Activation::kGelu, a[kWidth * r]));
  const auto got = download_activations(out, kRows * kWidth);
  for (uint32_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i / kWidth], unit() * std::abs(expected[i / kWidth]) + 1.5e-5)
        << a[i / kWidth * kWidth];
}

// Fused QKV: three [H, H] become one [3H, H].
TEST_P(GemmTest, PacksSeveralViewsInOrder) {
  constexpr uint32_t kHidden = 36, kRows = 5;
  const device::GemmShape shape{.n = 3 * kHidden, .k = kHidden, .has_bias = false};
  const auto weight = random_activations(3 * kHidden * kHidden, 0.1);
  std::vector<TensorView> views;
  for (size_t i = 0; i < 3; ++i)
    views.push_back({reinterpret_cast<const std::byte*>(weight.data() + i * kHidden * kHidden),
                     DType::kF32, Shape{kHidden, kHidden}});
  auto packed = device_->allocate(device_->packed_bytes(shape).value());
  ASSERT_TRUE(packed);
  ASSERT_TRUE(device_->pack(shape, views, (*packed)->data()));
  const auto prepared = device_->prepare(shape, kRows);
  ASSERT_TRUE(prepared);
  const auto a = random_activations(kRows * kHidden);
  std::byte* out = make_output((kRows + device_->row_slack()) * shape.n, activation());
  const RowRange range{.first_row = 0, .num_rows = kRows, .slot = 0};
  stream_->launch(kernels::GroupedGemm{.a = upload_activations(a, device_->row_slack() * kHidden),
                                       .weights = {.base = (*packed)->data(), .stride_bytes = 0},
                                       .bias = {},
                                       .out = out,
                                       .n = shape.n,
                                       .k = shape.k,
                                       .ranges = {&range, 1},
                                       .prepared = prepared->get()});
  expect_close(download_activations(out, kRows * shape.n),
               reference::linear(a, weight, {}, kRows, shape.n, shape.k, Activation::kNone),
               1.1 * unit() + 1e-6, "fused");
}

// A weight that already has the device's type need not be copied first.
TEST_P(GemmTest, PacksOneViewOfItsOwnTypeAsTwo) {
  constexpr uint32_t kOut = 40, kIn = 24;
  const device::GemmShape shape{.n = kOut, .k = kIn, .has_bias = false};
  const DType type = device_->info().compute.weights;
  const auto values = random_values(kOut * kIn);
  const TensorView source{reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
                          Shape{kOut, kIn}};
  std::vector<std::byte> weight(kOut * kIn * dtype_bytes(type));
  device::convert_floats(source, type, weight.data());
  const size_t half_bytes = weight.size() / 2;
  const std::vector<TensorView> whole = {{weight.data(), type, Shape{kOut, kIn}}};
  const std::vector<TensorView> halves = {{weight.data(), type, Shape{kOut / 2, kIn}},
                                          {weight.data() + half_bytes, type, Shape{kOut / 2, kIn}}};
  std::vector<std::vector<std::byte>> packed;
  for (const auto& views : {whole, halves, std::vector<TensorView>{source}}) {
    const auto buffer = device_->allocate(device_->packed_bytes(shape).value());
    ASSERT_TRUE(buffer);
    ASSERT_TRUE(device_->pack(shape, views, (*buffer)->data()));
    packed.emplace_back((*buffer)->bytes());
    device_->download((*buffer)->data(), packed.back().size(), packed.back().data());
  }
  EXPECT_EQ(packed[0], packed[1]);
  EXPECT_EQ(packed[0], packed[2]);
}

TEST_P(GemmTest, RefusesToPackWeightsOfAnotherSize) {
  const auto weight = random_values(12);
  const TensorView view{reinterpret_cast<const std::byte*>(weight.data()), DType::kF32,
                        Shape{3, 4}};
  std::vector<std::byte> target(4096);
  const Status status = device_->pack({.n = 4, .k = 4}, {&view, 1}, target.data());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
}

// Regression: after 256 released shapes, preparing another aborted.
TEST_P(GemmTest, PreparesAndReleasesManyShapes) {
  for (uint32_t n = 1; n <= 300; ++n) ASSERT_TRUE(device_->prepare({.n = n, .k = 3}, 1)) << n;
  run({.n = 11, .k = 13, .rows_of = {4}});
}

TEST_P(GemmTest, SynchronizeReportsUnpreparedGemm) {
  const RowRange range{.first_row = 0, .num_rows = 1, .slot = 0};
  std::byte* memory = make_output(1 << 16, activation());
  stream_->launch(kernels::GroupedGemm{.a = memory,
                                       .weights = {.base = memory, .stride_bytes = 0},
                                       .bias = {},
                                       .out = memory + 4096,
                                       .n = 11,
                                       .k = 13,
                                       .ranges = {&range, 1}});
  const Status status = stream_->synchronize();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInternal);
  EXPECT_TRUE(stream_->synchronize());  // reported once
}

}  // namespace
}  // namespace itif::kernels
