#include "runtime/gemm_scheduler.h"

#include <gtest/gtest.h>

#include <map>

#include "support/ask.h"
#include "support/plain_device.h"
#include "support/small_group.h"

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
  return GemmScheduler(parts, 256, 4096).choose(ranges_of(rows)).of(1, 1);
}

// Of 2 and 8 ranges of 16 and 64 rows each.
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

// The modes of a 300 × 100 and a 100 × 400.
struct Modes {
  kernels::GemmMode wide, deep;
  bool operator==(const Modes&) const = default;
};
Modes choose(GemmScheduler& scheduler, const std::vector<uint32_t>& rows) {
  const auto ranges = ranges_of(rows);
  const kernels::GemmModes modes = scheduler.choose(ranges);
  return {modes.of(300, 100), modes.of(100, 400)};
}
constexpr Modes kBothInTurn{kInTurn, kInTurn}, kBothAtOnce{kAtOnce, kAtOnce};

std::shared_ptr<const plan::CostTables> share(plan::CostTables tables) {
  return std::make_shared<const plan::CostTables>(std::move(tables));
}

// At once costs a tenth in some cells of the table, and ten times as much elsewhere.
const std::vector<plan::SharedGemm> kOpposite = {
    {300, 100, {100, 100, 100, 100}, {10, 10, 1000, 1000}},    // cheaper with 2 ranges
    {100, 400, {100, 100, 100, 100}, {1000, 10, 1000, 1000}},  // and this, of 64 rows only
};

TEST(GemmScheduler, OneRangeHasTheWholeDevice) {
  EXPECT_EQ(choose(2, {1000}), kInTurn);
  EXPECT_EQ(choose(2, {}), kInTurn);
}

TEST(GemmScheduler, EvenRangesRunAtOnce) {
  EXPECT_EQ(choose(2, {64, 64}), kAtOnce);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 32)), kAtOnce);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(9, 32)), kInTurn);  // five of them against four
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 4)), kAtOnce);
}

// Rows that are computed with more than they are would have to be copied.
TEST(GemmScheduler, RangesOfOddRowsRunInTurn) {
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 30)), kInTurn);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(8, 197)), kInTurn);
}

TEST(GemmScheduler, ALargeRangeIsDividedBeforeItIsDealt) {
  EXPECT_EQ(choose(2, {512, 16, 16}), kAtOnce);
  EXPECT_EQ(choose(2, {128, 16, 16}), kAtOnce);
  EXPECT_EQ(choose(2, {128, 128, 128}), kAtOnce);
  EXPECT_EQ(choose(2, {32, 16}), kInTurn);
}

TEST(GemmScheduler, MorePartsThanTasksRunInTurn) {
  EXPECT_EQ(choose(16, {64, 64, 64, 64}), kInTurn);
  EXPECT_EQ(choose(1, {64, 64, 64, 64}), kInTurn);
}

// A GPU: no deal of ours is uneven, nothing is copied.
TEST(GemmScheduler, WhatDealsByItselfIsChosenByCostsAlone) {
  EXPECT_EQ(choose(0, {64}), kInTurn);
  EXPECT_EQ(choose(0, {1, 500, 30}), kAtOnce);
  GemmScheduler scheduler(0, 256, 4096);
  scheduler.set_costs(share(costs(kOpposite)));
  EXPECT_EQ(choose(scheduler, {16, 16}), (Modes{kAtOnce, kInTurn}));
  EXPECT_EQ(choose(scheduler, {2, 30}), (Modes{kAtOnce, kInTurn}));
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(8, 64)), kBothInTurn);
}

TEST(GemmScheduler, EachShapeIsChosenByItsOwnCosts) {
  GemmScheduler scheduler(2, 256, 4096);
  scheduler.set_costs(share(costs(kOpposite)));
  EXPECT_EQ(choose(scheduler, {16, 16}), (Modes{kAtOnce, kInTurn}));
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothAtOnce);
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(8, 64)), kBothInTurn);
  // Beyond the table, as at its nearest point; one range has no choice.
  EXPECT_EQ(choose(scheduler, {500, 500}), kBothAtOnce);
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(100, 3)), kBothInTurn);
  EXPECT_EQ(choose(scheduler, {64}), kBothInTurn);
  // A shape that was not measured follows the deal.
  const auto even = ranges_of({64, 64}), uneven = ranges_of({10, 100});
  EXPECT_EQ(scheduler.choose(even).of(7, 7), kAtOnce);
  EXPECT_EQ(scheduler.choose(uneven).of(7, 7), kInTurn);
}

TEST(GemmScheduler, CostsBetweenMeasuredPointsAreLinear) {
  GemmScheduler scheduler(2, 256, 4096);
  // At once is cheaper until about halfway between 16 and 64 rows, by more than the 5 % it may be longer.
  scheduler.set_costs(share(costs({{300, 100, {100, 100, 100, 100}, {0.1, 210, 0.1, 210}}})));
  EXPECT_EQ(choose(scheduler, {32, 32}).wide, kAtOnce);
  EXPECT_EQ(choose(scheduler, {48, 48}).wide, kInTurn);
  EXPECT_EQ(choose(scheduler, {32, 32, 32, 32}).wide, kAtOnce);
}

TEST(GemmScheduler, AtOnceTakesAsMuchLongerAsItsDealIsUneven) {
  GemmScheduler scheduler(2, 256, 4096);
  scheduler.set_costs(share(costs({{300, 100, {100, 100, 100, 100}, {80, 80, 80, 80}}})));
  EXPECT_EQ(choose(scheduler, {32, 32}).wide, kAtOnce);
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16, 16}).wide, kAtOnce);  // 80 · 48/40
  EXPECT_EQ(choose(scheduler, {32, 16}).wide, kInTurn);              // 80 · 32/24
}

TEST(GemmScheduler, AtOnceTakesLongerByWhatIsCopied) {
  GemmScheduler scheduler(2, 256, 4096);
  scheduler.set_costs(share(costs({{300, 100, {100, 100, 100, 100}, {95, 95, 95, 95}}})));
  EXPECT_EQ(choose(scheduler, {32, 32}).wide, kAtOnce);
  EXPECT_EQ(choose(scheduler, {30, 30}).wide, kInTurn);          // 95 · 1.2
  EXPECT_EQ(choose(scheduler, {32, 32, 30, 30}).wide, kAtOnce);  // 95 · 1.1
}

// Between two and eight ranges the table knows no odd number: the deal does.
TEST(GemmScheduler, ThreeRangesOnTwoPartsTakeAsLongAsFour) {
  GemmScheduler scheduler(2, 256, 4096);
  // In turn 10 a range, at once 8 a range, on both parts.
  scheduler.set_costs(share(costs({{300, 100, {20, 20, 80, 80}, {16, 16, 64, 64}}})));
  EXPECT_EQ(choose(scheduler, {16, 16}).wide, kAtOnce);
  EXPECT_EQ(choose(scheduler, {16, 16, 16}).wide, kInTurn);  // 24 · 4/3 against 30
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16}).wide, kAtOnce);
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16, 16}).wide, kAtOnce);  // 40 · 6/5 against 50
}

// What was measured at once with more parts than ranges says what ranges take that fill the parts.
TEST(GemmScheduler, MeasuredRangesThatLeftPartsIdleAreNotHeldAgainstMore) {
  GemmScheduler scheduler(8, 256, 4096);
  scheduler.set_costs(share(costs({{300, 100, {20, 20, 80, 80}, {40, 40, 40, 40}}})));
  EXPECT_EQ(choose(scheduler, {16, 16}).wide, kInTurn);
  EXPECT_EQ(choose(scheduler, {16, 16, 16, 16, 16}).wide, kAtOnce);
  EXPECT_EQ(choose(scheduler, std::vector<uint32_t>(8, 16)).wide, kAtOnce);
}

TEST(GemmScheduler, WithoutCostsTheDealDecides) {
  GemmScheduler scheduler(2, 256, 4096);
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothAtOnce);
  scheduler.set_costs(share(costs(kOpposite)));
  scheduler.set_costs(
      share(costs({{300, 100, {1, 1, 1, 1}, {9, 9, 9, 9}}})));  // before the first is taken
  EXPECT_EQ(choose(scheduler, {64, 64}), (Modes{kInTurn, kAtOnce}));
  plan::CostTables planners_only = costs(kOpposite);
  planners_only.range_counts.clear();
  planners_only.range_rows.clear();
  planners_only.shared_gemms.clear();
  scheduler.set_costs(share(planners_only));
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothAtOnce);
  scheduler.set_costs(share(costs(kOpposite)));
  scheduler.set_costs(nullptr);
  EXPECT_EQ(choose(scheduler, {64, 64}), kBothAtOnce);
}

TEST(GemmScheduler, AGroupsPassesFollowItsProfile) {
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
  EXPECT_EQ(modes().at(qkv), kAtOnce);
  EXPECT_EQ(modes().at(out), kAtOnce);
  small.group->set_costs(share(costs({{3 * hidden, hidden, {1, 1, 1, 1}, {9, 9, 9, 9}},
                                      {hidden, hidden, {9, 9, 9, 9}, {1, 1, 1, 1}}})));
  EXPECT_EQ(modes().at(qkv), kInTurn);
  EXPECT_EQ(modes().at(out), kAtOnce);
  EXPECT_EQ(modes(), modes());
  small.group->set_costs(nullptr);
  EXPECT_EQ(modes().at(qkv), kAtOnce);
}

}  // namespace
}  // namespace itif::runtime
