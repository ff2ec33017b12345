// A group's demand, by hand: Algorithm 1 of GSLICE, and where it differs from the text as printed.
#include "slice/share_demand.h"

#include <gtest/gtest.h>

#include <cmath>

#include "groups.h"

namespace itif::slice {
namespace {

// The demand after enough such seconds for a decision.
double demand(double slo_ms, const Observation& observation, double knee_percent = 0,
              int seconds = 20) {
  ShareDemand group({}, knee_percent, static_cast<uint64_t>(slo_ms * 1e6));
  for (int i = 0; i < seconds; ++i) group.observe(observation);
  return group.percent();
}

TEST(ShareDemand, StartsAtTheKneeOrAt30Percent) {
  EXPECT_EQ(ShareDemand({}, 0, 0).percent(), 30);
  EXPECT_EQ(ShareDemand({}, 12, 0).percent(), 12);
  EXPECT_EQ(ShareDemand({}, 0.5, 0).percent(), 1);
}

TEST(ShareDemand, KeepsItsShareWithinTheThresholds) {
  EXPECT_NEAR(demand(50, second(100, 104, 48)), 30, 1e-9);
  EXPECT_NEAR(demand(50, second(100, 96, 52)), 30, 1e-9);
}

// As printed, "residual < threshold" keeps the share of a group whose residuals are both negative
// and large.
TEST(ShareDemand, ALargeShortfallOfBothIsNoReasonToKeepTheShare) {
  EXPECT_NEAR(demand(50, second(35, 15, 65)), 30 * 35 / 15 * 1.1, 0.01);
}

TEST(ShareDemand, EitherShortfallGrowsTheShare) {
  // Throughput only: by arrival rate / throughput.
  EXPECT_NEAR(demand(50, second(60, 40, 10)), 30 * 1.5 * 1.1, 0.01);
  // Latency only: by 1 + (75 − 50) / 75.
  EXPECT_NEAR(demand(50, second(10, 100, 75)), 30 * (1 + 1.0 / 3) * 1.1, 0.01);
  // Both: by the larger.
  EXPECT_NEAR(demand(50, second(60, 40, 75)), 30 * 1.5 * 1.1, 0.01);
}

TEST(ShareDemand, AQueueOfAnyLengthAtMostDoublesTheShare) {
  EXPECT_LE(demand(50, second(100, 96, 1e6)), 2 * 30 * 1.1);
  EXPECT_GT(demand(50, second(100, 96, 1e6)), 2 * 30);
}

// As printed, the larger magnitude counts, so a surplus of throughput would grow the share.
TEST(ShareDemand, ASurplusDoesNotGrowTheShare) {
  EXPECT_LT(demand(50, second(10, 1000, 53)), 36);
}

TEST(ShareDemand, ShrinksByTheSmallerSurplus) {
  // Throughput allows 35 / 131 of the share, latency 7.6 / 50.
  EXPECT_NEAR(demand(50, second(35, 131, 7.6)), 30 * 35.0 / 131 * 1.1, 0.01);
  // Throughput allows a tenth, latency 0.8.
  EXPECT_NEAR(demand(50, second(10, 100, 40)), 30 * 0.8 * 1.1, 0.01);
}

// As printed, a latency of a tenth of the objective changes the share by −900 %.
TEST(ShareDemand, NoSurplusMakesTheShareNegative) {
  EXPECT_EQ(demand(500, second(1, 1e6, 0.001)), 1);
}

TEST(ShareDemand, OneSurplusAloneKeepsTheShare) {
  EXPECT_NEAR(demand(50, second(10, 100, 49)), 30, 1e-9);
  EXPECT_NEAR(demand(50, second(99, 100, 10)), 30, 1e-9);
}

// All requests wait, also when no more arrive, as with clients that wait for their answers.
TEST(ShareDemand, AStarvedGroupAsksForTwiceItsShare) {
  ShareDemand group({}, 0, 0);
  Observation seen{.elapsed_ns = 1'000'000'000, .arrived = 5, .waiting = 5};
  group.observe(seen);
  seen.arrived = 0;
  for (int i = 0; i < 3; ++i) group.observe(seen);
  EXPECT_EQ(group.percent(), 30);
  group.observe(seen);
  EXPECT_EQ(group.percent(), 60);
  group.changed(10);  // no more could be given
  for (int i = 0; i < 5; ++i) group.observe(seen);
  EXPECT_EQ(group.percent(), 100);
  seen.waiting = 0;
  for (int i = 0; i < 20; ++i) group.observe(seen);
  EXPECT_EQ(group.percent(), 100) << "nothing to do is no reason to change";
}

TEST(ShareDemand, OneAnswerInAWhileIsNoStarvation) {
  ShareDemand group({}, 0, 0);
  for (int i = 0; i < 40; ++i)
    group.observe({.elapsed_ns = 1'000'000'000,
                   .arrived = i % 4 == 0 ? 1.0 : 0.0,
                   .served = i % 4 == 3 ? 1.0 : 0.0,
                   .waiting = i % 4 == 3 ? 0.0 : 1.0,
                   .busy_ns = 1'000'000'000});
  EXPECT_LE(group.percent(), 40);
}

TEST(ShareDemand, WithoutAnObjectiveThroughputDecides) {
  EXPECT_NEAR(demand(0, second(10, 100, 1e6)), 30 * 0.1 * 1.4, 0.01);
  EXPECT_NEAR(demand(0, second(60, 40, 0)), 30 * 1.5 * 1.4, 0.01);
}

TEST(ShareDemand, NeverExceedsTheKneeOrTheDevice) {
  EXPECT_EQ(demand(50, second(60, 40, 10), 35), 35);
  EXPECT_EQ(demand(50, second(600, 40, 10)), 100);
  ShareDemand group({}, 0, 50 * kMs);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 40, 10));
  group.set_knee(20);
  EXPECT_EQ(group.percent(), 20);
}

TEST(ShareDemand, WaitsForObservations) {
  EXPECT_EQ(demand(50, second(60, 40, 10), 0, 4), 30);
  EXPECT_GT(demand(50, second(60, 40, 10), 0, 5), 40);
  // A surplus has to last.
  EXPECT_EQ(demand(50, second(10, 100, 10), 0, 8), 30);
  EXPECT_LT(demand(50, second(10, 100, 10), 0, 9), 20);
}

TEST(ShareDemand, IdlePeriodsChangeNothing) {
  EXPECT_EQ(demand(50, second(0, 100, 0), 0, 1000), 30);
  ShareDemand group({}, 0, 50 * kMs);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 40, 10));
  const double before = group.percent();
  for (int i = 0; i < 1000; ++i) group.observe({.elapsed_ns = kSecond});
  EXPECT_EQ(group.percent(), before);
}

TEST(ShareDemand, BatchControlAsksForMoreOrLess) {
  Observation kept = second(100, 104, 51);
  kept.ask = Ask::kMore;  // at once, though the averages are within the thresholds
  EXPECT_NEAR(demand(50, kept, 0, 1), 30 * 1.05 * 1.1, 0.01);
  Observation loose = second(10, 100, 10);
  loose.ask = Ask::kLess;  // does not wait for further surpluses
  EXPECT_LT(demand(50, loose, 0, 5), 20);
  kept.ask = Ask::kLess;
  EXPECT_NEAR(demand(50, kept), 30, 1e-9);  // there is no surplus of throughput
}

// A group that ran on 60 % while others slept needs what that share showed.
TEST(ShareDemand, LentSharesCount) {
  Observation lent = second(50, 100, 10);
  lent.share_percent = 60;
  EXPECT_NEAR(demand(50, lent), 60 * 0.5 * 1.1, 0.01);
}

TEST(ShareDemand, ForgetsWhatItSawBeforeAChange) {
  ShareDemand group({}, 0, 50 * kMs);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 40, 90));
  const double grown = group.percent();
  group.changed(grown);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 62, 49));
  EXPECT_NEAR(group.percent(), grown, 0.01);
}

TEST(ShareDemand, KeepsAMarginAboveTheShareThatWasTooSmall) {
  ShareDemand group({.first_percent = 20}, 0, 50 * kMs);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 70, 500));  // falls short at 20 %
  EXPECT_GT(group.percent(), 36);
  group.changed(40);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 140, 12));
  EXPECT_NEAR(group.percent(), 23, 0.01);
  group.changed(22);  // where the margin would grow it
  for (int i = 0; i < 10; ++i) group.observe(second(60, 77, 22));
  EXPECT_NEAR(group.percent(), 22, 0.01);
  // At half of the arrivals the memory no longer holds.
  for (int i = 0; i < 30; ++i) group.observe(second(30, 77, 22));
  EXPECT_LT(group.percent(), 12);
}

// While requests that waited on the old share are served, latency says nothing about the new one.
// It once made this share the one that was too small, and the demand stayed above it for ever.
TEST(ShareDemand, AQueueFromBeforeAChangeIsNoShortfall) {
  ShareDemand group({.first_percent = 20}, 0, 50 * kMs);
  Observation seen = second(60, 40, 500);
  for (int i = 0; i < 10; ++i) {
    seen.waiting += 20;
    group.observe(seen);
  }
  const double grown = group.percent();
  group.changed(grown);
  seen.served = 80;
  seen.latencies = {80, 80 * 400e6, 80 * 16e16};
  for (int i = 0; i < 10; ++i) {
    seen.waiting -= 20;
    group.observe(seen);
    EXPECT_NEAR(group.percent(), grown, 1e-9);
  }
  for (int i = 0; i < 40; ++i) group.observe(second(60, 80, 10));
  EXPECT_NEAR(group.percent(), grown * 60 / 80 * 1.1, 0.5);
}

// A queue that does not become shorter is this share's.
TEST(ShareDemand, AQueueThatStaysIsAShortfall) {
  ShareDemand group({.first_percent = 20}, 0, 50 * kMs);
  Observation seen = second(60, 62, 500);
  seen.waiting = 100;
  for (int i = 0; i < 10; ++i) group.observe(seen);
  const double grown = group.percent();
  group.changed(grown);
  for (int i = 0; i < 20; ++i) group.observe(seen);
  EXPECT_GT(group.percent(), 1.5 * grown);
}

// A surplus at the share that was too small shows that the shortfall had another cause.
TEST(ShareDemand, ForgetsAShortfallThatHasPassed) {
  ShareDemand group({.first_percent = 20}, 0, 50 * kMs);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 70, 500));
  group.changed(20);
  for (int i = 0; i < 20; ++i) group.observe(second(60, 140, 12));
  EXPECT_NEAR(group.percent(), 20 * 60.0 / 140 * 1.1, 0.01);
}

// A late group that is given less than it asks for goes on asking for it.
TEST(ShareDemand, BeingGivenLessDoesNotLowerTheDemand) {
  ShareDemand group({}, 0, 50 * kMs);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 70, 500));
  const double asked = group.percent();
  group.changed(10);
  for (int i = 0; i < 10; ++i) group.observe(second(60, 58, 900));
  EXPECT_EQ(group.percent(), asked);
}

// Batches that follow each other serve what arrives on any share that suffices. The demand must
// come down to the least share that keeps the objective, from wherever the group is observed.
TEST(ShareDemand, LargerBatchesShowTheSurplusOfAGroupThatAlwaysComputes) {
  constexpr BatchingGroup::Model kModel{
      .rate = 500, .fixed_ms = 8, .per_request_ms = 0.4, .slo_ms = 50};
  // By hand: 0.2 of the device for requests, 8 / 20 for a batch in the aim of 20 ms.
  constexpr double kNeededPercent = 60;
  for (const double lent_percent : {100.0, 90.0, 80.0}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      BatchingGroup batches(kModel, seed);
      ShareDemand group({}, 0, 50 * kMs);
      group.changed(lent_percent);
      for (int i = 0; i < 60; ++i) group.observe(batches.run(lent_percent));
      EXPECT_GT(group.percent(), kNeededPercent) << lent_percent << " % seed " << seed;
      EXPECT_LT(group.percent(), 1.25 * kNeededPercent) << lent_percent << " % seed " << seed;
    }
  }
}

// The share that it comes to is enough, and it stays there.
TEST(ShareDemand, TheShareOfAGroupThatAlwaysComputesSettles) {
  for (const BatchingGroup::Model& model :
       {BatchingGroup::Model{500, 8, 0.4, 50}, BatchingGroup::Model{2000, 2, 0.2, 50},
        BatchingGroup::Model{100, 10, 2, 100}, BatchingGroup::Model{50, 1, 10, 100}}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      BatchingGroup batches(model, seed);
      ShareDemand group({}, 0, static_cast<uint64_t>(model.slo_ms * 1e6));
      double percent = 100;
      int num_late_changes = 0;
      double served = 0, latency_ns = 0;
      group.changed(percent);
      for (int i = 0; i < 600; ++i) {
        const Observation seen = batches.run(percent);
        if (i >= 100) {
          served += seen.served;
          latency_ns += seen.latencies.ns;
        }
        group.observe(seen);
        if (i % 10 != 9 || std::abs(group.percent() - percent) < 0.05 * percent) continue;
        percent = group.percent();
        group.changed(percent);
        num_late_changes += i >= 100;
      }
      EXPECT_LE(num_late_changes, 3) << model.rate << " seed " << seed;
      EXPECT_GT(served, 0.97 * 500 * model.rate);
      EXPECT_LT(latency_ns / served, 1e6 * model.slo_ms);
    }
  }
}

// Without an objective, nothing says how late the answers of larger batches may be.
TEST(ShareDemand, WithoutAnObjectiveBatchTimesDoNotCount) {
  BatchingGroup batches({.rate = 500, .fixed_ms = 8, .per_request_ms = 0.4, .slo_ms = 50}, 1);
  ShareDemand group({}, 0, 0);
  group.changed(90);
  for (int i = 0; i < 60; ++i) group.observe(batches.run(90));
  EXPECT_GT(group.percent(), 85);
}

}  // namespace
}  // namespace itif::slice
