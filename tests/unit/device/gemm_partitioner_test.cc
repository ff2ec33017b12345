// Splitting of ranges into tasks, and their distribution over the parts.
#include "device/gemm_partitioner.h"

#include <gtest/gtest.h>

namespace itif::device {
namespace {

GemmPartitioner::Partition partition(uint32_t parts, const std::vector<uint32_t>& rows) {
  GemmPartitioner partitioner(parts);
  for (const uint32_t count : rows) {
    const kernels::RowRange range{.num_rows = count};
    partitioner.add({&range, 1});
  }
  return partitioner.partition();
}

TEST(GemmPartitioner, EvenRangesUseTheLargestTasks) {
  EXPECT_EQ(partition(2, {128, 128}).task_rows, 128u);
  EXPECT_EQ(partition(2, {100, 90}).task_rows, 128u);
  EXPECT_EQ(partition(2, {512, 10, 10}).task_rows, 128u);
  EXPECT_EQ(partition(2, {128, 128}).unevenness, 1);
}

TEST(GemmPartitioner, UsesSmallerTasksToBalanceParts) {
  EXPECT_EQ(partition(2, {128, 128, 128}).task_rows, 64u);
  EXPECT_EQ(partition(2, {128, 128, 128}).unevenness, 1);
  EXPECT_EQ(partition(2, {64, 64, 64}).task_rows, 32u);
  EXPECT_EQ(partition(4, {128}).task_rows, 32u);
  EXPECT_EQ(partition(2, {0, 256}).unevenness, 1);
}

TEST(GemmPartitioner, FewRowsAreNeverSplit) {
  EXPECT_EQ(partition(2, {32, 32, 32}).unevenness, 64.0 / 48);
  EXPECT_EQ(partition(2, {32, 32, 32}).task_rows, 128u);
  EXPECT_EQ(partition(8, {4, 4}).unevenness, 4);
}

// If no task size is even enough (kEven), the least uneven one is chosen.
TEST(GemmPartitioner, ChoosesTheLeastUneven) {
  const GemmPartitioner::Partition chosen = partition(2, {60, 20});
  EXPECT_EQ(chosen.task_rows, 32u);
  EXPECT_EQ(chosen.unevenness, 48.0 / 40);
}

// Each task beyond one per range reads the range's weights again.
TEST(GemmPartitioner, CountsSplits) {
  EXPECT_EQ(partition(2, {128, 112, 16, 1}).num_splits, 0u);
  EXPECT_EQ(partition(2, {197, 197}).num_splits, 2u);
  EXPECT_EQ(partition(2, {128, 128, 128}).num_splits, 3u);
  EXPECT_EQ(partition(4, {128}).num_splits, 3u);
  EXPECT_EQ(partition(2, {}).num_splits, 0u);
}

TEST(GemmPartitioner, NoRowsAreEven) {
  EXPECT_EQ(partition(2, {}).unevenness, 1);
  EXPECT_EQ(partition(2, {0, 0}).unevenness, 1);
}

TEST(GemmPartitioner, ClearForgetsEarlierRanges) {
  GemmPartitioner both(2);
  const kernels::RowRange large{.num_rows = 128}, small{.num_rows = 8};
  both.add({&large, 1});
  both.clear();
  both.add({&small, 1});
  both.add({&small, 1});
  EXPECT_EQ(both.partition().unevenness, 1);
}

}  // namespace
}  // namespace itif::device
