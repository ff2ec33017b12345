// Which cuBLAS calls a launch makes, and on which streams.
#include "device/cuda/gemm/gemm_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "device/cuda/device.h"
#include "product.h"

namespace itif::device::cuda {
namespace {

using kernels::GemmCall;
using kernels::GemmMode;
using kernels::GemmSchedule;

std::vector<kernels::RowRange> ranges_of(const std::vector<uint32_t>& rows) {
  std::vector<kernels::RowRange> ranges;
  uint32_t first = 0;
  for (const uint32_t count : rows) {
    ranges.push_back({first, count, static_cast<uint32_t>(ranges.size())});
    first += count;
  }
  return ranges;
}

kernels::GroupedGemm gemm(const std::vector<kernels::RowRange>& ranges,
                          const GemmSchedule& schedule) {
  return {.weights = {}, .bias = {}, .n = 64, .k = 64, .ranges = ranges, .schedule = schedule};
}

// Rows of each call.
std::vector<std::vector<uint32_t>> rows_of(const GemmCalls& calls) {
  std::vector<std::vector<uint32_t>> all;
  for (const GemmCalls::Call& call : calls.all()) {
    auto& rows = all.emplace_back();
    for (const kernels::RowRange& range : call.args.ranges) rows.push_back(range.num_rows);
    EXPECT_EQ(call.is_batched, rows.size() > 1);
  }
  return all;
}

std::vector<std::vector<uint32_t>> divide(const std::vector<uint32_t>& rows,
                                          const GemmSchedule& schedule) {
  GemmCalls calls(DType::kBF16);
  const auto ranges = ranges_of(rows);
  calls.add(gemm(ranges, schedule), false);
  return rows_of(calls);
}

using Rows = std::vector<std::vector<uint32_t>>;

TEST(GemmCalls, FollowThePlan) {
  const std::vector<GemmCall> planned = {{1}, {3}, {2}, {1}};
  EXPECT_EQ(divide({700, 64, 64, 64, 8, 16, 300}, GemmSchedule(planned)),
            (Rows{{700}, {64, 64, 64}, {8, 16}, {300}}));
}

TEST(GemmCalls, FollowTheModeWithoutAPlan) {
  EXPECT_EQ(divide({700, 64, 8}, GemmMode::kSequential), (Rows{{700}, {64}, {8}}));
  EXPECT_EQ(divide({700, 64, 8}, GemmMode::kStreams), (Rows{{700}, {64}, {8}}));
  EXPECT_EQ(divide({700, 64, 8}, GemmMode::kConcurrent), (Rows{{700, 64, 8}}));
  EXPECT_EQ(divide({700, 64, 8}, GemmMode::kPointers), (Rows{{700, 64, 8}}));
}

TEST(GemmCalls, AreStridedIfRowsAreManyAndSlotsEquallyFarApart) {
  const auto by_pointers = [](const std::vector<kernels::RowRange>& ranges, GemmMode mode) {
    GemmCalls calls(DType::kF32);
    calls.add(gemm(ranges, mode), false);
    return calls.all()[0].by_pointers;
  };
  const auto equal = ranges_of({300, 300});
  EXPECT_FALSE(by_pointers(equal, GemmMode::kConcurrent));
  EXPECT_TRUE(by_pointers(equal, GemmMode::kPointers));
  EXPECT_TRUE(by_pointers(ranges_of({300, 200}), GemmMode::kConcurrent));
  EXPECT_TRUE(by_pointers(ranges_of({100, 100}), GemmMode::kConcurrent)) << "few rows";
  auto descending = equal;
  std::swap(descending[0].slot, descending[1].slot);
  EXPECT_TRUE(by_pointers(descending, GemmMode::kConcurrent));
}

// cuBLAS has no grouped call with f32 results of 16-bit operands.
TEST(GemmCalls, AreDividedWhereCublasHasNoBatchedOne) {
  GemmCalls calls(DType::kBF16);
  const auto ranges = ranges_of({16, 24, 8, 8});
  const std::vector<GemmCall> planned = {{2, 10}, {2, 6}};
  kernels::GroupedGemm args = gemm(ranges, GemmSchedule(planned));
  args.f32_out = true;
  calls.add(args, false);
  EXPECT_EQ(rows_of(calls), (Rows{{16}, {24}, {8, 8}}));
  EXPECT_EQ(calls.all()[0].cost_ns, 5) << "half of the planned call";
}

// Its grouped calls of 16-bit operands want n and k to be multiples of 8.
TEST(GemmCalls, DividesRangesOfOddSizesUnlessEquallyLong) {
  const auto unequal = ranges_of({16, 24}), equal = ranges_of({16, 16});
  for (const auto& [n, k, together] :
       {std::tuple{64u, 64u, true}, {68u, 64u, false}, {64u, 60u, false}}) {
    for (const DType type : {DType::kBF16, DType::kF32}) {
      GemmCalls calls(type);
      kernels::GroupedGemm args = gemm(unequal, GemmMode::kConcurrent);
      args.n = n;
      args.k = k;
      calls.add(args, false);
      EXPECT_EQ(calls.all().size(), together || type == DType::kF32 ? 1u : 2u) << n << " " << k;
      calls.clear();
      args.ranges = equal;
      calls.add(args, false);
      EXPECT_EQ(calls.all().size(), 1u) << n << " " << k;
    }
  }
  GemmCalls calls(DType::kF32);
  EXPECT_TRUE(calls.stop_grouping());
  EXPECT_FALSE(calls.stop_grouping());
  calls.add(gemm(unequal, GemmMode::kConcurrent), false);
  calls.add(gemm(equal, GemmMode::kConcurrent), false);
  EXPECT_EQ(rows_of(calls), (Rows{{16}, {24}, {16, 16}}));
}

// A GPU whose cuBLAS has no grouped kernel computes the same, call by call.
TEST(RefusedProducts, RunAloneWhereCublasHasNoGroupedCall) {
  const auto device = open_cuda_device({.kind = "cuda", .dtype = "f32"}).value();
  constexpr uint32_t kRows = 64, kDepth = 32, kWidth = 24, kLaunches = 8;
  std::vector<float> noise(1 << 16);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<float>(i * 37 % 101) - 50;
  const auto memory = device->allocate(noise.size() * sizeof(float)).value();
  const TensorView view{reinterpret_cast<const std::byte*>(noise.data()), DType::kF32,
                        Shape{noise.size()}};
  ASSERT_TRUE(device->upload(view, DType::kF32, memory->data()));
  const auto out = device->allocate(kLaunches * kRows * kWidth * sizeof(float)).value();
  const GemmHandle prepared =
      device->prepare({.n = kWidth, .k = kDepth, .has_bias = false}, kRows).value();
  const auto run = [&](Stream& stream, const std::vector<kernels::RowRange>& ranges) {
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream.launch(
          kernels::GroupedGemm{.a = memory->data(),
                               .weights = {memory->data(), kWidth * kDepth * sizeof(float)},
                               .bias = {},
                               .out = out->data() + i * kRows * kWidth * sizeof(float),
                               .n = kWidth,
                               .k = kDepth,
                               .ranges = ranges,
                               .schedule = GemmMode::kConcurrent,
                               .prepared = prepared.get()});
    std::vector<float> got(kLaunches * kRows * kWidth);
    stream.copy_to_host(out->data(), got.size() * sizeof(float), got.data());
    EXPECT_TRUE(stream.synchronize());
    return got;
  };
  const StreamLimits limits{.max_tokens = kRows, .max_segments = 8};
  const std::vector<std::vector<kernels::RowRange>> batches = {{{0, 20, 0}, {20, 44, 1}},
                                                               {{0, 20, 2}, {20, 44, 0}}};
  const auto grouping = device->make_stream(limits).value();
  std::vector<std::vector<float>> expected;
  for (const auto& ranges : batches) expected.push_back(run(*grouping, ranges));
  EXPECT_NE(expected[0], expected[1]);
  // From the first batch on, and only once a graph of such calls exists.
  for (const bool from_the_start : {true, false}) {
    const auto stream = device->make_stream(limits).value();
    if (!from_the_start) {
      EXPECT_EQ(run(*stream, batches[0]), expected[0]);
    }
    simt::refuse_grouped_products(true);
    for (int turn = 0; turn < 4; ++turn)
      for (size_t i = 0; i < batches.size(); ++i)
        EXPECT_EQ(run(*stream, batches[i]), expected[i]) << "turn " << turn;
    simt::refuse_grouped_products(false);
  }
}

// ITIF, section 4.2.1: query, key and value run on three streams.
TEST(GemmCalls, QueryKeyAndValueTakeAStreamEach) {
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of({64, 64});
  const std::vector<GemmCall> planned = {{2, 100}};
  for (int i = 0; i < 3; ++i) calls.add(gemm(ranges, GemmSchedule(planned)), false);
  EXPECT_EQ(calls.balance(), 3u);
  std::map<size_t, int> calls_of;
  for (const GemmCalls::Call& call : calls.all()) ++calls_of[call.stream_index];
  EXPECT_EQ(calls_of, (std::map<size_t, int>{{0, 1}, {1, 1}, {2, 1}}));
}

// Work of each stream, by `work`.
template <class Work>
std::vector<double> loads(const std::vector<GemmCall>& planned, const std::vector<uint32_t>& rows,
                          const Work& work) {
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of(rows);
  calls.add(
      gemm(ranges, planned.empty() ? GemmSchedule(GemmMode::kStreams) : GemmSchedule(planned)),
      false);
  calls.balance();
  std::vector<double> loads(GemmCalls::kStreams);
  for (const GemmCalls::Call& call : calls.all()) loads[call.stream_index] += work(call);
  std::ranges::sort(loads);
  return loads;
}

// In turn, the streams would take 900 + 100, 100 + 100 and 100 + 300.
TEST(GemmCalls, BalanceStreamsByPlannedCosts) {
  const std::vector<GemmCall> planned = {{1, 900}, {1, 100}, {1, 100},
                                         {1, 100}, {1, 100}, {1, 300}};
  EXPECT_EQ(loads(planned, {1, 9, 9, 9, 9, 9}, [](const auto& call) { return call.cost_ns; }),
            (std::vector<double>{300, 400, 900}));
}

TEST(GemmCalls, BalanceStreamsByProductsWithoutCosts) {
  EXPECT_EQ(loads({}, {90, 10, 10, 10, 10, 30},
                  [](const auto& call) { return call.products / (64 * 64); }),
            (std::vector<double>{30, 40, 90}));
}

// The first range has most rows, but a call of few rows takes almost as long.
TEST(GemmCalls, BalanceStreamsByProfiledTimeWithoutAPlan) {
  const kernels::ShapeMode shapes[] = {
      {.n = 64, .k = 64, .mode = GemmMode::kStreams, .call_ns = 100, .row_ns = 1}};
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of({60, 10, 10, 10, 10, 10});
  calls.add(gemm(ranges, GemmSchedule(shapes, GemmMode::kSequential)), false);
  calls.balance();
  std::map<size_t, size_t> calls_of_stream;
  for (const GemmCalls::Call& call : calls.all()) ++calls_of_stream[call.stream_index];
  EXPECT_EQ(calls_of_stream, (std::map<size_t, size_t>{{0, 2}, {1, 2}, {2, 2}}))
      << "by rows alone the first range would have a stream of its own";
}

TEST(GemmCalls, SequentialCallsOfAGemmShareAStream) {
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of({64, 64, 32});
  calls.add(gemm(ranges, GemmMode::kSequential), false);
  EXPECT_EQ(calls.balance(), 1u);
  calls.add(gemm(ranges, GemmMode::kSequential), false);
  EXPECT_EQ(calls.balance(), 2u) << "query and key";
  std::vector<size_t> streams;
  for (const GemmCalls::Call& call : calls.all()) streams.push_back(call.stream_index);
  EXPECT_EQ(streams, (std::vector<size_t>{0, 0, 0, 1, 1, 1}));
  calls.clear();
  calls.add(gemm(ranges, GemmMode::kSequential), false);
  EXPECT_EQ(calls.balance(), 1u);
}

TEST(GemmCalls, OneCallTakesOneStream) {
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of({64, 64});
  calls.add(gemm(ranges, GemmMode::kConcurrent), false);
  EXPECT_EQ(calls.balance(), 1u);
}

}  // namespace
}  // namespace itif::device::cuda
