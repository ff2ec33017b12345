// Which cuBLAS calls a launch makes, and on which streams.
#include "device/cuda/gemm/gemm_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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
  EXPECT_EQ(divide({700, 64, 8}, GemmMode::kConcurrent), (Rows{{700, 64, 8}}));
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

// ITIF, section 4.2.1: query, key and value run on three streams.
TEST(GemmCalls, OfQueryKeyAndValueTakeAStreamEach) {
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of({64, 64});
  const std::vector<GemmCall> planned = {{2, 100}};
  for (int i = 0; i < 3; ++i) calls.add(gemm(ranges, GemmSchedule(planned)), false);
  EXPECT_EQ(calls.balance(), 3u);
  std::map<size_t, int> calls_of;
  for (const GemmCalls::Call& call : calls.all()) ++calls_of[call.lane];
  EXPECT_EQ(calls_of, (std::map<size_t, int>{{0, 1}, {1, 1}, {2, 1}}));
}

// Work of each stream, by `work`.
template <class Work>
std::vector<double> loads(const std::vector<GemmCall>& planned, const std::vector<uint32_t>& rows,
                          const Work& work) {
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of(rows);
  calls.add(
      gemm(ranges, planned.empty() ? GemmSchedule(GemmMode::kSequential) : GemmSchedule(planned)),
      false);
  calls.balance();
  std::vector<double> loads(GemmCalls::kLanes);
  for (const GemmCalls::Call& call : calls.all()) loads[call.lane] += work(call);
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

TEST(GemmCalls, OneCallTakesOneStream) {
  GemmCalls calls(DType::kF32);
  const auto ranges = ranges_of({64, 64});
  calls.add(gemm(ranges, GemmMode::kConcurrent), false);
  EXPECT_EQ(calls.balance(), 1u);
}

}  // namespace
}  // namespace itif::device::cuda
