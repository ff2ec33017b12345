#include "runtime/cost/gemm_scheduler.h"

#include <gtest/gtest.h>

#include <map>

#include "support/plain_device.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using enum kernels::GemmMode;

std::vector<kernels::RowRange> ranges_of(const std::vector<uint32_t>& rows) {
  std::vector<kernels::RowRange> ranges;
  uint32_t first = 0;
  for (const uint32_t count : rows) {
    ranges.push_back({first, count, static_cast<uint32_t>(ranges.size())});
    first += count;
  }
  return ranges;
}

kernels::GemmMode choose(uint32_t parts, const std::vector<uint32_t>& rows) {
  return GemmScheduler(parts, 256, 4096).choose(ranges_of(rows)).mode_of(1, 1);
}

// Cost tables for 2 and 8 ranges of 16 and 64 rows each.
plan::CostTables costs(const std::vector<plan::SharedGemm>& gemms) {
  plan::CostTables tables;
  tables.device = "a device";
  tables.backbone = "a backbone";
  tables.lengths = tables.batches = {1};
  tables.gemm_ns = {1};
  tables.range_counts = {2, 8};
  tables.range_rows = {16, 64};
  tables.shared_gemms = gemms;
  EXPECT_TRUE(plan::validate(tables));
  return tables;
}

// The modes of a 300 × 100 and a 100 × 400 GEMM (n × k).
struct Modes {
  kernels::GemmMode wide, deep;
  bool operator==(const Modes&) const = default;
};
Modes choose(GemmScheduler& scheduler, const std::vector<uint32_t>& rows) {
  const auto ranges = ranges_of(rows);
  const kernels::GemmSchedule modes = scheduler.choose(ranges);
  return {modes.mode_of(300, 100), modes.mode_of(100, 400)};
}
constexpr Modes kBothSequential{kSequential, kSequential},
    kBothConcurrent{kConcurrent, kConcurrent};

std::shared_ptr<const plan::CostTables> share(plan::CostTables tables) {
  return std::make_shared<const plan::CostTables>(std::move(tables));
}

// Concurrent GEMMs cost a tenth in some cells of the table, and ten times as much in others.
const std::vector<plan::SharedGemm> kOpposite = {
    {300, 100, {100, 100, 100, 100}, {10, 10, 1000, 1000}},    // cheaper with 2 ranges
    {100, 400, {100, 100, 100, 100}, {1000, 10, 1000, 1000}},  // cheaper with 2 ranges of 64 rows
};

TEST(GemmScheduler, OneRangeUsesTheWholeDevice) {
  EXPECT_EQ(choose(2, {1000}), kSequential);
  EXPECT_EQ(choose(2, {}), kSequential);
}

TEST(GemmScheduler, EvenRangesRunConcurrently) {
  EXPECT_EQ(choose(2, {64, 64}), kConcurrent);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 32)), kConcurrent);
  // One part gets five, the other four.
  EXPECT_EQ(choose(2, std::vector<uint32_t>(9, 32)), kSequential);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 4)), kConcurrent);
}

// Rounding these ranges up to whole_rows() would require copies.
// A task beyond one per range reads its weights again.
TEST(GemmScheduler, SplitRangesRunSequentially) {
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 30)), kConcurrent);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 128)), kConcurrent);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 197)), kSequential);
  EXPECT_EQ(choose(2, {128, 128, 128}), kSequential);
  EXPECT_EQ(choose(2, {130, 128, 128, 120, 120, 120}), kConcurrent);  // one of six is split
  EXPECT_EQ(choose(2, {32, 16}), kSequential);
}

TEST(GemmScheduler, FewerTasksThanPartsRunSequentially) {
  EXPECT_EQ(choose(16, {64, 64, 64, 64}), kSequential);
  EXPECT_EQ(choose(1, {64, 64, 64, 64}), kSequential);
}

// 0 parts: a GPU, which distributes the work. No distribution is uneven, and no range is split.
TEST(GemmScheduler, GpuModesDependOnCostsAlone) {
  EXPECT_EQ(choose(0, {64}), kSequential);
  EXPECT_EQ(choose(0, {1, 500, 30}), kConcurrent);
  GemmScheduler scheduler(0, 256, 4096);
  scheduler.set_costs(share(costs(kOpposite)));
  EXPECT_EQ(choose(scheduler, {16, 16}), (Modes{kConcurrent, kSequential}));
  EXPECT_EQ(choose(scheduler, {2, 30}), (Modes{kConcurrent, kSequential}));
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(8, 64)), kBothSequential);
}

// A GPU with all modes measured. `rows` of the ranges and their slots select the tables.
TEST(GemmScheduler, AGpuTakesTheFastestOfAllModes) {
  const auto choose_from = [](plan::SharedGemm gemm, const std::vector<uint32_t>& rows,
                              uint32_t last_slot = 1) {
    gemm.n = 300;
    gemm.k = 100;
    GemmScheduler scheduler(0, 256, 4096);
    scheduler.set_costs(share(costs({gemm})));
    auto ranges = ranges_of(rows);
    ranges.back().slot = last_slot;
    return scheduler.choose(ranges).mode_of(300, 100);
  };
  const auto all = [](double ns) { return std::vector<double>(4, ns); };
  const plan::SharedGemm level{.sequential_ns = all(100),
                               .concurrent_ns = all(200),
                               .streams_ns = all(300),
                               .pointers_ns = all(400),
                               .uneven_sequential_ns = all(100),
                               .uneven_streams_ns = all(300),
                               .uneven_concurrent_ns = all(200)};
  EXPECT_EQ(choose_from(level, {16, 16}), kSequential);
  EXPECT_EQ(choose_from(level, {8, 24}), kSequential);
  plan::SharedGemm gemm = level;
  gemm.streams_ns = all(90);
  EXPECT_EQ(choose_from(gemm, {16, 16}), kStreams);
  EXPECT_EQ(choose_from(gemm, {8, 24}), kSequential) << "of equal rows only";
  gemm.uneven_streams_ns = all(90);
  EXPECT_EQ(choose_from(gemm, {8, 24}), kStreams);
  gemm.concurrent_ns = all(50);
  EXPECT_EQ(choose_from(gemm, {16, 16}), kConcurrent);
  EXPECT_EQ(choose_from(gemm, {8, 24}), kStreams) << "a strided call needs equal rows";
  EXPECT_EQ(choose_from(gemm, {16, 16, 16}, 7), kStreams) << "and slots equally far apart";
  EXPECT_EQ(choose_from(gemm, {16, 16}, 0), kStreams) << "that ascend";
  gemm.pointers_ns = all(60);
  EXPECT_EQ(choose_from(gemm, {16, 16}), kConcurrent);
  EXPECT_EQ(choose_from(gemm, {16, 16, 16}, 7), kConcurrent) << "by pointers, as its slots ask";
  gemm.pointers_ns = all(40);
  EXPECT_EQ(choose_from(gemm, {16, 16}), kPointers);
  EXPECT_EQ(choose_from(gemm, {8, 24}), kStreams) << "pointer calls need equal rows";
  gemm.uneven_concurrent_ns = all(20);
  EXPECT_EQ(choose_from(gemm, {8, 24}), kConcurrent) << "grouped";
}

TEST(GemmScheduler, EachShapeFollowsItsOwnCosts) {
  GemmScheduler scheduler(2, 256, 4096);
  scheduler.set_costs(share(costs(kOpposite)));
  EXPECT_EQ(choose(scheduler, {16, 16}), (Modes{kConcurrent, kSequential}));
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothConcurrent);
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(8, 64)), kBothSequential);
  // Beyond the table its nearest point counts. One range has no choice.
  EXPECT_EQ(choose(scheduler, {500, 500}), kBothConcurrent);
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(100, 3)), kBothSequential);
  EXPECT_EQ(choose(scheduler, {64}), kBothSequential);
  // An unmeasured shape follows the evenness of the distribution.
  const auto even = ranges_of({64, 64}), uneven = ranges_of({10, 100});
  EXPECT_EQ(scheduler.choose(even).mode_of(7, 7), kConcurrent);
  EXPECT_EQ(scheduler.choose(uneven).mode_of(7, 7), kSequential);
}

// A GPU balances its streams by these.
TEST(GemmScheduler, TheScheduleHasTheCostOfEachRange) {
  plan::CostTables tables = costs({{300, 100, {100, 196, 900, 900}, {10, 10, 10, 10}}});
  tables.range_counts = {1, 8};
  GemmScheduler scheduler(0, 256, 4096);
  scheduler.set_costs(share(tables));
  const auto unequal = ranges_of({64, 16, 40}), equal = ranges_of({64, 64});
  const kernels::GemmSchedule schedule = scheduler.choose(unequal);
  EXPECT_DOUBLE_EQ(schedule.range_ns(300, 100, 16), 100);
  EXPECT_DOUBLE_EQ(schedule.range_ns(300, 100, 64), 196);
  EXPECT_DOUBLE_EQ(schedule.range_ns(300, 100, 40), 148);
  EXPECT_EQ(schedule.range_ns(100, 400, 40), 0) << "not measured";
  EXPECT_DOUBLE_EQ(scheduler.choose(equal).range_ns(300, 100, 64), 196);
}

TEST(GemmScheduler, CostsBetweenMeasuredPointsAreLinear) {
  GemmScheduler scheduler(2, 256, 4096);
  // Concurrent GEMMs are chosen up to 1.05 times the sequential cost: up to about 40 rows.
  scheduler.set_costs(share(costs({{300, 100, {100, 100, 100, 100}, {0.1, 210, 0.1, 210}}})));
  EXPECT_EQ(choose(scheduler, {32, 32}).wide, kConcurrent);
  EXPECT_EQ(choose(scheduler, {48, 48}).wide, kSequential);
  EXPECT_EQ(choose(scheduler, {32, 32, 32, 32}).wide, kConcurrent);
}

TEST(GemmScheduler, UnevenDistributionRaisesTheConcurrentCost) {
  GemmScheduler scheduler(2, 256, 4096);
  scheduler.set_costs(share(costs({{300, 100, {100, 100, 100, 100}, {80, 80, 80, 80}}})));
  EXPECT_EQ(choose(scheduler, {32, 32}).wide, kConcurrent);
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16, 16}).wide, kConcurrent);  // 80 · 48/40
  EXPECT_EQ(choose(scheduler, {32, 16}).wide, kSequential);              // 80 · 32/24
}

TEST(GemmScheduler, SplitsRaiseTheConcurrentCost) {
  GemmScheduler scheduler(2, 256, 4096);
  scheduler.set_costs(share(costs({{300, 100, {100, 100, 100, 100}, {95, 95, 95, 95}}})));
  EXPECT_EQ(choose(scheduler, {128, 128}).wide, kConcurrent);
  EXPECT_EQ(choose(scheduler, {160, 160}).wide, kConcurrent);    // 95 · (1 + 2 · 16 / 320)
  EXPECT_EQ(choose(scheduler, {64, 64, 64}).wide, kSequential);  // 95 · (1 + 3 · 16 / 192)
}

// The table has no odd numbers of ranges. Their distribution over the parts accounts for them.
TEST(GemmScheduler, ThreeRangesOnTwoPartsCostAsMuchAsFour) {
  GemmScheduler scheduler(2, 256, 4096);
  // Sequential: 10 ns a range. Concurrent: 8 ns a range, on both parts.
  scheduler.set_costs(share(costs({{300, 100, {20, 20, 80, 80}, {16, 16, 64, 64}}})));
  EXPECT_EQ(choose(scheduler, {16, 16}).wide, kConcurrent);
  EXPECT_EQ(choose(scheduler, {16, 16, 16}).wide, kSequential);  // 24 · 4/3 against 30
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16}).wide, kConcurrent);
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16, 16}).wide, kConcurrent);  // 40 · 6/5 against 50
}

// A cost measured with fewer ranges than parts is divided by its unevenness. The quotient is the
// cost of ranges that fill all parts.
TEST(GemmScheduler, CorrectsMeasurementsThatLeftPartsIdle) {
  GemmScheduler scheduler(8, 256, 4096);
  scheduler.set_costs(share(costs({{300, 100, {20, 20, 80, 80}, {40, 40, 40, 40}}})));
  EXPECT_EQ(choose(scheduler, {16, 16}).wide, kSequential);
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16, 16}).wide, kConcurrent);
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(8, 16)).wide, kConcurrent);
}

TEST(GemmScheduler, WithoutCostsTheDistributionDecides) {
  GemmScheduler scheduler(2, 256, 4096);
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothConcurrent);
  scheduler.set_costs(share(costs(kOpposite)));
  // Replaces the first tables before they are used.
  scheduler.set_costs(share(costs({{300, 100, {1, 1, 1, 1}, {9, 9, 9, 9}}})));
  EXPECT_EQ(choose(scheduler, {64, 64}), (Modes{kSequential, kConcurrent}));
  plan::CostTables planners_only = costs(kOpposite);
  planners_only.range_counts.clear();
  planners_only.range_rows.clear();
  planners_only.shared_gemms.clear();
  scheduler.set_costs(share(planners_only));
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothConcurrent);
  scheduler.set_costs(share(costs(kOpposite)));
  scheduler.set_costs(nullptr);
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothConcurrent);
}

TEST(GemmScheduler, GroupPassesFollowTheProfile) {
  testing::PlainDevice device(2);
  testing::SmallGroup small(device);
  const uint32_t hidden = testing::odd_spec().hidden;
  const auto modes = [&] {
    device.state().gemms.clear();
    for (const auto& answer :
         testing::run_batch(*small.group, *small.stream,
                            {{.slot = 0, .ids = {1, 5, 9, 2}}, {.slot = 1, .ids = {2, 3, 4, 5}}}))
      EXPECT_TRUE(answer.ok()) << answer.detail;
    std::map<std::pair<uint32_t, uint32_t>, kernels::GemmMode> by_shape;
    for (const kernels::ShapeMode& gemm : device.state().gemms)
      by_shape[{gemm.n, gemm.k}] = gemm.mode;
    return by_shape;
  };
  const std::pair qkv{3 * hidden, hidden}, out{hidden, hidden};
  EXPECT_EQ(modes().at(qkv), kConcurrent);
  EXPECT_EQ(modes().at(out), kConcurrent);
  small.group->set_costs(share(costs({{3 * hidden, hidden, {1, 1, 1, 1}, {9, 9, 9, 9}},
                                      {hidden, hidden, {9, 9, 9, 9}, {1, 1, 1, 1}}})));
  EXPECT_EQ(modes().at(qkv), kSequential);
  EXPECT_EQ(modes().at(out), kConcurrent);
  EXPECT_EQ(modes(), modes());
  small.group->set_costs(nullptr);
  EXPECT_EQ(modes().at(qkv), kConcurrent);
}

}  // namespace
}  // namespace itif::runtime
