// The cuBLAS calls that a launch makes, and their streams.
#include "device/cuda/gemm/gemm_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

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
}

// cuBLAS is slow at one GEMM by pointers.
TEST(GemmCalls, OneRangeIsAPlainCall) {
  for (const GemmMode mode : {GemmMode::kConcurrent, GemmMode::kPointers}) {
    GemmCalls calls(DType::kBF16);
    calls.add(gemm(ranges_of({16}), mode), false);
    ASSERT_EQ(calls.all().size(), 1u);
    EXPECT_FALSE(calls.all()[0].is_batched);
  }
}

// A refusal concerns one kind of call of one shape.
TEST(GemmCalls, DividesRangesWhoseCallWasRefused) {
  const auto unequal = ranges_of({16, 24}), equal = ranges_of({16, 16});
  const auto many = ranges_of({300, 300});
  const auto divided = [&](BlasCall refused, const std::vector<kernels::RowRange>& ranges,
                           const GemmSchedule& schedule, uint32_t n) {
    GemmCalls calls(DType::kF32);
    kernels::GroupedGemm args = gemm(ranges, schedule);
    calls.refusals().add(kind_of(refused, args), CUBLAS_STATUS_NOT_SUPPORTED);
    args.n = n;
    calls.add(args, false);
    return !calls.all()[0].is_batched;
  };
  const std::vector<GemmCall> planned = {{2}};
  const std::tuple<BlasCall, std::vector<kernels::RowRange>, GemmSchedule> cases[] = {
      {BlasCall::kGrouped, unequal, GemmMode::kConcurrent},
      {BlasCall::kGrouped, unequal, GemmSchedule(planned)},
      {BlasCall::kByPointers, equal, GemmMode::kConcurrent},
      {BlasCall::kByPointers, many, GemmMode::kPointers},
      {BlasCall::kStrided, many, GemmMode::kConcurrent},
      {BlasCall::kStrided, many, GemmSchedule(planned)}};
  for (const auto& [own, ranges, schedule] : cases)
    for (const BlasCall refused : {BlasCall::kGrouped, BlasCall::kByPointers, BlasCall::kStrided}) {
      EXPECT_EQ(divided(refused, ranges, schedule, 64), refused == own)
          << name_of(own) << ", " << name_of(refused);
      EXPECT_FALSE(divided(refused, ranges, schedule, 72)) << "another shape";
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

// Calls dealt out in turn would give the streams 900 + 100, 100 + 100 and 100 + 300.
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
