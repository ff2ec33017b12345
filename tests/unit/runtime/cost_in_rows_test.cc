// A batch costs whole rows if the planner has rows of fixed length.
#include "runtime/cost/cost_in_rows.h"

#include <gtest/gtest.h>

namespace itif::runtime {
namespace {

struct NsPerToken final : sched::BatchCost {
  double batch_ns(uint32_t num_tokens) const noexcept override { return num_tokens; }
  uint32_t tokens_within(uint64_t ns) const noexcept override { return static_cast<uint32_t>(ns); }
};

TEST(CostInRows, RoundsToRows) {
  const NsPerToken per_token;
  CostInRows cost(per_token);
  EXPECT_EQ(cost.batch_ns(41), 41);
  EXPECT_EQ(cost.tokens_within(79), 79u);
  cost.use_rows({.number = 3, .tokens = 40});
  EXPECT_EQ(cost.batch_ns(1), 40);
  EXPECT_EQ(cost.batch_ns(40), 40);
  EXPECT_EQ(cost.batch_ns(41), 80);
  EXPECT_EQ(cost.tokens_within(79), 40u);
  EXPECT_EQ(cost.tokens_within(80), 80u);
  EXPECT_EQ(cost.tokens_within(10), 40u);
  EXPECT_EQ(cost.tokens_within(UINT32_MAX), UINT32_MAX / 40 * 40);
  cost.use_rows({});
  EXPECT_EQ(cost.batch_ns(41), 41);
}

TEST(CostInRows, SumsDoNotOverflow) {
  const NsPerToken per_token;
  CostInRows cost(per_token);
  cost.use_rows({.number = 1, .tokens = 400});
  EXPECT_EQ(cost.batch_ns(UINT32_MAX - 1), UINT32_MAX);
}

}  // namespace
}  // namespace itif::runtime
