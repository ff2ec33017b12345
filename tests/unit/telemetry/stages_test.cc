#include "telemetry/stages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

namespace itif::telemetry {
namespace {

Histogram read(const StageHistograms& stages, Stage stage) {
  StageHistograms::Set set;
  stages.merge_into(set);
  return set[static_cast<size_t>(stage)];
}

TEST(Stages, ReadersSeePublishedValues) {
  StageHistograms stages;
  stages.record(Stage::kQueue, 5);
  stages.publish();
  stages.record(Stage::kQueue, 6);
  EXPECT_EQ(read(stages, Stage::kQueue).count(), 1u);
  stages.publish();
  EXPECT_EQ(read(stages, Stage::kQueue).count(), 2u);
}

TEST(Stages, MergingAddsSeveralOwners) {
  StageHistograms a, b;
  a.record(Stage::kCompute, 100);
  b.record(Stage::kCompute, 300);
  a.publish();
  b.publish();
  StageHistograms::Set set;
  a.merge_into(set);
  b.merge_into(set);
  const Histogram& compute = set[static_cast<size_t>(Stage::kCompute)];
  EXPECT_EQ(compute.count(), 2u);
  EXPECT_EQ(compute.min(), 100u);
  EXPECT_EQ(compute.max(), 300u);
  EXPECT_EQ(set[static_cast<size_t>(Stage::kTotal)].count(), 0u);
}

// Each snapshot is consistent: count and sum agree for any interleaving of owner and readers.
TEST(Stages, ReadersSeeWholeSnapshotsWhileTheOwnerRecords) {
  StageHistograms stages;
  std::atomic<int> reads{0};
  std::thread reader([&] {
    uint64_t last = 0;
    for (; reads.load() < 200; ++reads) {
      const Histogram total = read(stages, Stage::kTotal);
      EXPECT_GE(total.count(), last);
      if (total.count()) {
        EXPECT_DOUBLE_EQ(total.mean(), 7.0);
      }
      last = total.count();
    }
  });
  uint64_t recorded = 0, published = 0;
  while (reads.load() < 200) {
    stages.record(Stage::kTotal, 7);
    ++recorded;
    if (stages.publish()) published = recorded;
  }
  reader.join();
  EXPECT_EQ(read(stages, Stage::kTotal).count(), published) << "publish() said which it published";
  EXPECT_TRUE(stages.publish()) << "nobody reads";
  EXPECT_EQ(read(stages, Stage::kTotal).count(), recorded);
}

TEST(Stages, NamesAreDistinct) {
  std::set<std::string> names;
  for (size_t i = 0; i < kNumStages; ++i) names.insert(stage_name(static_cast<Stage>(i)));
  EXPECT_EQ(names.size(), kNumStages);
  EXPECT_EQ(names.count("?"), 0u);
}

}  // namespace
}  // namespace itif::telemetry
