#include "runtime/cost/pass_gemms.h"

#include <gtest/gtest.h>

namespace itif::runtime {
namespace {

using kernels::GemmCall;
using kernels::RowRange;
using Rows = std::vector<std::pair<uint32_t, uint32_t>>;  // rows and slot of each range

// Five slots in the order of their rows, and three kinds: a GEMM's weight, a bias, another weight.
class PassGemmsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kSlots = 5;

  PassGemmsTest() {
    for (uint32_t slot = 0; slot < kSlots; ++slot)
      ranges_.push_back({.first_row = 10 * slot, .num_rows = 10, .slot = slot});
  }
  // `first`, `second`: the numbers of the two weights, by slot.
  void choose(const std::vector<uint32_t>& first, const std::vector<uint32_t>& second,
              const std::vector<GemmCall>& calls = {}, bool has_bucket = false) {
    first_ = first;
    second_ = second;
    calls_ = calls;
    numbers_ = {first_.data(), nullptr, second_.data()};
    const auto choice = gemms_.choose(ranges_, calls_, has_bucket, {{}, numbers_});
    pass_ = {};
    pass_.ranges = ranges_;
    pass_.gemm_schedule = choice.schedule;
    pass_.joined = choice.joined;
  }
  Rows rows(size_t kind) const {
    Rows rows;
    uint32_t next_row = 0;
    for (const RowRange& range : pass_.gemm(kind).ranges) {
      EXPECT_EQ(range.first_row, next_row);
      next_row += range.num_rows;
      rows.emplace_back(range.num_rows, range.slot);
    }
    EXPECT_EQ(next_row, 10 * kSlots);
    return rows;
  }
  std::vector<GemmCall> calls(size_t kind) const {
    const auto calls = pass_.gemm(kind).schedule.calls();
    return {calls.begin(), calls.end()};
  }

  PassGemms gemms_{2, 3, {.max_ranges = 16, .max_rows = 100}};
  std::vector<RowRange> ranges_;
  std::vector<uint32_t> first_, second_;
  std::vector<GemmCall> calls_;
  std::vector<const uint32_t*> numbers_;
  backbone::Pass pass_;
};

const Rows kApart = {{10, 0}, {10, 1}, {10, 2}, {10, 3}, {10, 4}};

TEST_F(PassGemmsTest, EqualNeighboursAreOneRangeGemmByGemm) {
  choose({7, 7, 3, 7, 7}, {1, 1, 1, 1, 1});
  EXPECT_EQ(rows(0), (Rows{{20, 0}, {10, 2}, {20, 3}}));
  EXPECT_EQ(rows(2), (Rows{{50, 0}}));
  EXPECT_EQ(rows(1), kApart) << "no weight of a GEMM";
  EXPECT_EQ(rows(100), kApart);
  EXPECT_EQ(pass_.joined.all.size(), 2u);
}

TEST_F(PassGemmsTest, DifferentWeightsStayApart) {
  choose({0, 1, 2, 3, 4}, {0, 1, 0, 1, 0});
  EXPECT_EQ(rows(0), kApart);
  EXPECT_EQ(rows(2), kApart) << "equal weights that are no neighbours";
  EXPECT_TRUE(pass_.joined.all.empty());
}

// The graph of a bucket must not depend on tenants.
TEST_F(PassGemmsTest, ABucketKeepsItsRanges) {
  choose({7, 7, 7, 7, 7}, {7, 7, 7, 7, 7}, {}, true);
  EXPECT_EQ(rows(0), kApart);
  EXPECT_EQ(pass_.gemm_schedule.others(), kernels::GemmMode::kPointers);
}

TEST_F(PassGemmsTest, ModesAreThoseOfTheJoinedRanges) {
  // Two threads: concurrent for even ranges, sequential for one range and for three of 10 rows.
  ranges_.resize(4);
  ranges_.back().num_rows = 20;
  choose({7, 7, 7, 7, 0}, {1, 1, 2, 2, 0});
  using enum kernels::GemmMode;
  GemmScheduler scheduler(2, 16, 100);
  for (const size_t kind : {0, 1, 2})
    EXPECT_EQ(pass_.gemm(kind).schedule.others(),
              scheduler.choose(pass_.gemm(kind).ranges).others());
  EXPECT_EQ(pass_.gemm(0).schedule.others(), kSequential);
}

TEST_F(PassGemmsTest, EachChoiceKeepsItsMeasuredModes) {
  auto tables = std::make_shared<plan::CostTables>();
  tables->range_counts = {2, 8};
  tables->range_rows = {8, 64};
  // Concurrent is cheaper for 8 ranges, sequential for two.
  tables->shared_gemms = {
      {.n = 4, .k = 4, .sequential_ns = {10, 80, 400, 3200}, .concurrent_ns = {20, 160, 40, 320}}};
  gemms_.set_costs(tables);
  choose({0, 1, 2, 3, 4}, {0, 0, 0, 1, 1});
  ASSERT_EQ(pass_.joined.all.size(), 1u);
  GemmScheduler scheduler(2, 16, 100);
  scheduler.set_costs(tables);
  for (const size_t kind : {0, 2})
    EXPECT_EQ(pass_.gemm(kind).schedule.mode_of(4, 4),
              scheduler.choose(pass_.gemm(kind).ranges).mode_of(4, 4));
  EXPECT_NE(pass_.gemm(0).schedule.mode_of(4, 4), pass_.gemm(2).schedule.mode_of(4, 4));
}

TEST_F(PassGemmsTest, PlannedGemmsOfEqualWeightsAreOne) {
  const GemmCall one{.num_ranges = 1, .cost_ns = 5};
  choose({7, 7, 3, 7, 7}, {0, 1, 2, 3, 3}, {one, one, one, one, {.num_ranges = 1, .cost_ns = 0}});
  EXPECT_EQ(rows(0), (Rows{{20, 0}, {10, 2}, {20, 3}}));
  EXPECT_EQ(calls(0), (std::vector<GemmCall>{{1, 10}, {1, 5}, {1, 0}}));
  EXPECT_EQ(rows(2), (Rows{{10, 0}, {10, 1}, {10, 2}, {20, 3}}));
  EXPECT_EQ(calls(1), calls_);
}

TEST_F(PassGemmsTest, ABatchedGemmIsOneOnlyIfAllItsWeightsAreEqual) {
  const std::vector<GemmCall> planned = {{3, 9}, {2, 4}};
  choose({7, 7, 7, 3, 4}, {7, 7, 3, 3, 3}, planned);
  EXPECT_EQ(rows(0), (Rows{{30, 0}, {10, 3}, {10, 4}}));
  EXPECT_EQ(calls(0), (std::vector<GemmCall>{{1, 9}, {2, 4}}));
  EXPECT_EQ(rows(2), (Rows{{10, 0}, {10, 1}, {10, 2}, {20, 3}})) << "equal shapes stay equal";
  EXPECT_EQ(calls(2), (std::vector<GemmCall>{{3, 9}, {1, 4}}));
  choose({7, 7, 7, 7, 7}, {7, 7, 7, 3, 3}, planned);
  EXPECT_EQ(rows(0), (Rows{{50, 0}}));
  EXPECT_EQ(calls(0), (std::vector<GemmCall>{{1, 13}}));
  EXPECT_EQ(calls(2), (std::vector<GemmCall>{{1, 9}, {1, 4}}));
}

// Algorithm 1 has divided a tenant's requests by cost.
TEST_F(PassGemmsTest, PlannedCallsOfOneSlotStay) {
  for (RowRange& range : ranges_) range.slot = 1;
  ranges_[4].slot = 2;
  choose({0, 0, 0, 0, 0}, {0, 1, 2, 3, 4}, {{2, 1}, {2, 1}, {1, 1}});
  EXPECT_EQ(rows(0), (Rows{{50, 1}})) << "another slot joins them";
  EXPECT_EQ(calls(2), calls_);
  ranges_[4].slot = 1;
  choose({0, 0, 0, 0, 0}, {0, 1, 2, 3, 4}, {{2, 1}, {2, 1}, {1, 1}});
  EXPECT_EQ(calls(0), calls_);
  EXPECT_EQ(rows(0).size(), 5u);
}

TEST_F(PassGemmsTest, WithoutItEverySlotKeepsItsRange) {
  PassGemms apart(2, 3, {.max_ranges = 16, .max_rows = 100, .joins = false});
  const std::vector<uint32_t> numbers(kSlots, 7);
  const std::vector<const uint32_t*> of_kind(3, numbers.data());
  EXPECT_TRUE(apart.choose(ranges_, {}, false, {{}, of_kind}).joined.all.empty());
}

// More distinct lists than there is room for: the rest keep the ranges of the pass.
TEST(PassGemms, DistinctListsAreBounded) {
  constexpr uint32_t kRanges = 64;
  std::vector<RowRange> ranges;
  for (uint32_t i = 0; i < kRanges; ++i) ranges.push_back({i, 1, i});
  // Kind k has one pair of equal neighbours: k and k + 1.
  std::vector<std::vector<uint32_t>> numbers(kRanges - 1);
  std::vector<const uint32_t*> of_kind;
  for (uint32_t kind = 0; kind + 1 < kRanges; ++kind) {
    for (uint32_t slot = 0; slot < kRanges; ++slot)
      numbers[kind].push_back(slot == kind + 1 ? kind : slot);
    of_kind.push_back(numbers[kind].data());
  }
  PassGemms gemms(2, of_kind.size(), {.max_ranges = kRanges, .max_rows = kRanges});
  for (int round = 0; round < 2; ++round) {
    const auto choice = gemms.choose(ranges, {}, false, {{}, of_kind});
    backbone::Pass pass;
    pass.ranges = ranges;
    pass.joined = choice.joined;
    EXPECT_EQ(choice.joined.all.size(), PassGemms::kMaxJoined);
    for (size_t kind = 0; kind < of_kind.size(); ++kind)
      EXPECT_EQ(pass.gemm(kind).ranges.size(),
                kind < PassGemms::kMaxJoined ? kRanges - 1 : kRanges);
  }
}

}  // namespace
}  // namespace itif::runtime
