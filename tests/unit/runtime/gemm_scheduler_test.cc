#include "runtime/gemm_scheduler.h"

#include <gtest/gtest.h>

namespace itif::runtime {
namespace {

using enum kernels::GemmMode;

kernels::GemmMode choose(uint32_t parts, const std::vector<uint32_t>& rows) {
  std::vector<kernels::RowRange> ranges;
  uint32_t first = 0;
  for (const uint32_t count : rows) {
    ranges.push_back({first, count, static_cast<uint32_t>(ranges.size())});
    first += count;
  }
  return GemmScheduler(parts, 256, 4096).choose(ranges);
}

TEST(GemmScheduler, OneRangeHasTheWholeDevice) {
  EXPECT_EQ(choose(2, {1000}), kInTurn);
  EXPECT_EQ(choose(2, {}), kInTurn);
}

TEST(GemmScheduler, EvenRangesRunAtOnce) {
  EXPECT_EQ(choose(2, {64, 64}), kAtOnce);
  EXPECT_EQ(choose(2, {30, 35, 33, 32, 31}), kInTurn);  // three of them against two
  EXPECT_EQ(choose(2, std::vector<uint32_t>(9, 30)), kInTurn);
  EXPECT_EQ(choose(2, std::vector<uint32_t>(21, 30)), kAtOnce);
}

TEST(GemmScheduler, ALargeRangeIsDividedBeforeItIsDealt) {
  EXPECT_EQ(choose(2, {512, 10, 10}), kAtOnce);
  EXPECT_EQ(choose(2, {128, 10, 10}), kInTurn);
}

TEST(GemmScheduler, MorePartsThanTasksRunInTurn) {
  EXPECT_EQ(choose(16, {64, 64, 64, 64}), kInTurn);
  EXPECT_EQ(choose(1, {64, 64, 64, 64}), kInTurn);
}

}  // namespace
}  // namespace itif::runtime
