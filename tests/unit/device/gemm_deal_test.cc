// Splitting of ranges into tasks, and their distribution over the parts.
#include "device/gemm_deal.h"

#include <gtest/gtest.h>

namespace itif::device {
namespace {

GemmDeal::Dealt deal(uint32_t parts, const std::vector<uint32_t>& rows) {
  GemmDeal deal(parts);
  for (const uint32_t count : rows) {
    const kernels::RowRange range{.num_rows = count};
    deal.add({&range, 1});
  }
  return deal.deal();
}

TEST(GemmDeal, EvenRangesUseTheLargestTasks) {
  EXPECT_EQ(deal(2, {128, 128}).task_rows, 128u);
  EXPECT_EQ(deal(2, {100, 90}).task_rows, 128u);
  EXPECT_EQ(deal(2, {512, 10, 10}).task_rows, 128u);
  EXPECT_EQ(deal(2, {128, 128}).unevenness, 1);
}

TEST(GemmDeal, UsesSmallerTasksToBalanceParts) {
  EXPECT_EQ(deal(2, {128, 128, 128}).task_rows, 64u);
  EXPECT_EQ(deal(2, {128, 128, 128}).unevenness, 1);
  EXPECT_EQ(deal(2, {64, 64, 64}).task_rows, 32u);
  EXPECT_EQ(deal(4, {128}).task_rows, 32u);
  EXPECT_EQ(deal(2, {0, 256}).unevenness, 1);
}

TEST(GemmDeal, FewRowsAreNeverSplit) {
  EXPECT_EQ(deal(2, {32, 32, 32}).unevenness, 64.0 / 48);
  EXPECT_EQ(deal(2, {32, 32, 32}).task_rows, 128u);
  EXPECT_EQ(deal(8, {4, 4}).unevenness, 4);
}

// If no task size is even enough (kEven), the least uneven one is chosen.
TEST(GemmDeal, ChoosesTheLeastUneven) {
  const GemmDeal::Dealt dealt = deal(2, {60, 20});
  EXPECT_EQ(dealt.task_rows, 32u);
  EXPECT_EQ(dealt.unevenness, 48.0 / 40);
}

// Tasks whose rows are rounded up to whole_rows() are copied.
TEST(GemmDeal, CountsCopiedRows) {
  EXPECT_EQ(deal(2, {128, 64, 16, 8, 4, 2, 1}).copied, 0);
  EXPECT_EQ(deal(2, {30, 30}).copied, 1);
  EXPECT_EQ(deal(2, {197, 197}).copied, 69.0 / 197);
  EXPECT_EQ(deal(2, {48, 16}).copied, 0);
  EXPECT_EQ(deal(2, {}).copied, 0);
}

TEST(GemmDeal, NoRowsAreEven) {
  EXPECT_EQ(deal(2, {}).unevenness, 1);
  EXPECT_EQ(deal(2, {0, 0}).unevenness, 1);
}

TEST(GemmDeal, ClearForgetsEarlierRanges) {
  GemmDeal both(2);
  const kernels::RowRange large{.num_rows = 128}, small{.num_rows = 8};
  both.add({&large, 1});
  both.clear();
  both.add({&small, 1});
  both.add({&small, 1});
  EXPECT_EQ(both.deal().unevenness, 1);
}

}  // namespace
}  // namespace itif::device
