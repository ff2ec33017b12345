#include "plan/packed.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace itif::plan {
namespace {

TEST(Packed, GroupsTenantsAndKeepsArrivalOrderWithin) {
  const std::vector<Item> items = {{2, 5}, {0, 3}, {2, 1}, {1, 4}, {0, 2}};
  std::vector<Segment> segments;
  plan_packed(items, segments);
  ASSERT_EQ(segments.size(), 5u);
  const uint32_t order[] = {1, 4, 3, 0, 2};
  const uint32_t rows[] = {0, 3, 5, 9, 14};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(segments[i].item, order[i]);
    EXPECT_EQ(segments[i].first_row, rows[i]);
  }
}

TEST(Packed, RandomBatchesAreAPermutationWithoutGapOrPadding) {
  Random random(11);
  std::vector<Segment> segments;
  for (int round = 0; round < 500; ++round) {
    std::vector<Item> items(random.below(40));
    uint32_t total = 0;
    for (Item& item : items) {
      item = {static_cast<uint32_t>(random.below(5)), 1 + static_cast<uint32_t>(random.below(9))};
      total += item.num_tokens;
    }
    plan_packed(items, segments);
    ASSERT_EQ(segments.size(), items.size());
    std::vector<bool> seen(items.size());
    uint32_t row = 0, slot = 0;
    for (const Segment& s : segments) {
      EXPECT_FALSE(seen[s.item]);
      seen[s.item] = true;
      EXPECT_EQ(s.num_rows, items[s.item].num_tokens);
      EXPECT_EQ(s.slot, items[s.item].slot);
      EXPECT_EQ(s.first_row, row);
      EXPECT_GE(s.slot, slot);
      row += s.num_rows;
      slot = s.slot;
    }
    EXPECT_EQ(row, total);
  }
}

}  // namespace
}  // namespace itif::plan
