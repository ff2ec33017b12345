// All groups of a device: hold-downs, groups that come and go, and simulated loads that stay as
// they are.
#include "slice/slice_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "groups.h"

namespace itif::slice {
namespace {

double total_percent(const SliceControl& control, uint32_t num_ids) {
  double total = 0;
  for (uint32_t id = 0; id < num_ids; ++id) total += control.share_percent(id);
  return total;
}

// Figure 16: VGG-19 and ResNet-50 start at 30 %, and each gets 35 requests a second. VGG-19 serves
// 15 at 65 ms, above its objective of 50 ms; ResNet-50 serves 131. In the paper VGG-19 gets 60 %
// and ResNet-50 8 %, and both keep up. Here throughput is proportional to the share below the knee,
// so that 35 requests need 68 %.
TEST(SliceControl, TunesTheTwoModelsOfFigure16) {
  const AnalyticGroup vgg{.id = 0, .per_percent = 15.4 / 30, .knee_percent = 75, .rate = 35};
  const AnalyticGroup resnet{.id = 1, .per_percent = 131.0 / 30, .knee_percent = 60, .rate = 35};
  SliceControl control({.demand = {.num_observations = 2}});
  ASSERT_TRUE(control.add(0, {.slo_ns = 50 * kMs}, 0));
  ASSERT_TRUE(control.add(1, {.slo_ns = 50 * kMs}, 0));
  EXPECT_EQ(control.share_percent(0), 30);
  EXPECT_EQ(control.share_percent(1), 30);
  uint64_t last_change_s = 0;
  for (uint64_t s = 1; s <= 300; ++s) {
    vgg.observe(control);
    resnet.observe(control);
    if (control.decide(s * kSecond)) last_change_s = s;
    EXPECT_LE(total_percent(control, 2), 100 + 1e-9);
    if (s == 2) {
      EXPECT_NEAR(control.share_percent(0), 70, 0.1);  // the rest is still ResNet-50's
    }
  }
  EXPECT_NEAR(control.share_percent(0), 70, 0.1);
  EXPECT_NEAR(control.share_percent(1), 8.8, 0.1);  // 10 % more than it needs
  for (const AnalyticGroup& group : {vgg, resnet}) {
    EXPECT_GE(group.throughput(control.share_percent(group.id)), 35);
    EXPECT_LE(group.latency_ms(control.share_percent(group.id)), 50);
  }
  EXPECT_LE(last_change_s, 15u);  // as in the paper, whose changes are done after 14 s
}

// Latency is base / share, with noise, and arrivals are Poisson's.
TEST(SliceControl, SharesSettleUnderAConstantLoad) {
  const std::vector<AnalyticGroup> models = {
      {.id = 0, .per_percent = 20, .knee_percent = 60, .rate = 700, .batch = 10},
      {.id = 1, .per_percent = 40, .knee_percent = 30, .rate = 300, .batch = 2},
      {.id = 2, .per_percent = 15, .knee_percent = 80, .rate = 200, .batch = 6}};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    SliceControl control({});
    for (const AnalyticGroup& model : models)
      ASSERT_TRUE(control.add(model.id, {.slo_ns = 50 * kMs}, 0));
    uint64_t last_change_s = 0;
    for (uint64_t s = 1; s <= 1800; ++s) {
      for (const AnalyticGroup& model : models) {
        const double percent = control.share_percent(model.id);
        const double rate = model.rate + std::sqrt(model.rate) * random.normal();
        const double latency_ms = model.latency_ms(percent) * (1 + 0.05 * random.normal());
        control.observe(model.id, second(rate, model.throughput(percent), latency_ms));
      }
      if (control.decide(s * kSecond)) last_change_s = s;
      EXPECT_LE(total_percent(control, 3), 100 + 1e-9);
    }
    EXPECT_LT(last_change_s, 600u) << "seed " << seed;
    for (const AnalyticGroup& model : models) {
      EXPECT_GE(model.throughput(control.share_percent(model.id)), model.rate);
      EXPECT_LE(model.throughput(control.share_percent(model.id)), 1.4 * model.rate);
      EXPECT_LE(model.latency_ms(control.share_percent(model.id)), 50);
    }
  }
}

// With queues, latency depends on bursts. One that violates the objective grows the share; the
// share does not fall back to where that happened.
TEST(SliceControl, BurstsGrowSharesButRarely) {
  const std::vector<AnalyticGroup> models = {
      {.id = 0, .per_percent = 20, .knee_percent = 60, .rate = 700},
      {.id = 1, .per_percent = 40, .knee_percent = 30, .rate = 300},
      {.id = 2, .per_percent = 5, .knee_percent = 80, .rate = 60}};
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SliceControl control({});
    std::vector<SimulatedGroup> groups;
    for (const AnalyticGroup& model : models) {
      ASSERT_TRUE(control.add(model.id, {.slo_ns = 50 * kMs}, 0));
      groups.emplace_back(model, 100 * seed + model.id);
    }
    int num_changes = 0, num_late_changes = 0, num_late = 0;
    for (uint64_t s = 1; s <= 3600; ++s) {
      for (SimulatedGroup& group : groups)
        num_late += group.run(control) > static_cast<double>(50 * kMs) && s > 600;
      if (!control.decide(s * kSecond)) continue;
      ++num_changes;
      num_late_changes += s > 600;
    }
    EXPECT_LE(num_changes, 12) << "seed " << seed;
    EXPECT_LE(num_late_changes, 5) << "seed " << seed;
    EXPECT_LE(num_late, 3 * 3000 / 50) << "seed " << seed;
    for (const AnalyticGroup& model : models)
      EXPECT_LE(model.throughput(control.share_percent(model.id)), 2.5 * model.rate);
  }
}

// Two groups whose loads together exceed the device, with the noise of Poisson arrivals.
TEST(SliceControl, SharesSettleUnderAConstantOverload) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    SliceControl control({});
    ASSERT_TRUE(control.add(0, {.slo_ns = 50 * kMs}, 0));
    ASSERT_TRUE(control.add(1, {.weight = 2}, 0));
    uint64_t last_change_s = 0;
    for (uint64_t s = 1; s <= 1800; ++s) {
      for (const uint32_t id : {0u, 1u}) {
        const double rate = 100 + 10 * random.normal();
        control.observe(id, second(rate, 1.2 * control.share_percent(id), id == 0 ? 500 : 0));
      }
      if (control.decide(s * kSecond)) last_change_s = s;
    }
    EXPECT_LT(last_change_s, 600u) << "seed " << seed;
    EXPECT_GT(control.share_percent(0) + control.share_percent(1), 95);
    EXPECT_GT(control.share_percent(0), 25);
  }
}

// A calm group beside an overloaded one uses lent time as well. Its demand once followed what it
// was lent until a surplus had lasted, and each change began the count again: shares of 48 and 14 %
// by turns, for ever.
TEST(SliceControl, SharesSettleWhileAnIdlePartIsLent) {
  SliceControl control({.hold_down_ns = 2 * kSecond});
  ASSERT_TRUE(control.add(0, {}, 0));
  ASSERT_TRUE(control.add(1, {}, 0));
  std::vector<double> shares;
  for (uint64_t i = 1; i <= 240; ++i) {
    control.observe(0, {.elapsed_ns = kSecond / 2,
                        .arrived = 30,
                        .served = 30,
                        .busy_ns = 75 * kMs,
                        .latencies = {30, 30 * 2e6, 30 * 4e12},
                        .share_percent = 85});
    control.observe(1, {.elapsed_ns = kSecond / 2,
                        .arrived = 53,
                        .served = 53,
                        .busy_ns = kSecond / 2,
                        .latencies = {53, 53 * 256e6, 53 * 65536e12},
                        .share_percent = 91});
    control.decide(i * kSecond / 2);
    if (i > 30) shares.push_back(control.share_percent(0));
  }
  EXPECT_EQ(std::ranges::count(shares, shares.front()), std::ssize(shares));
  // Its load takes 15 % of 85 % of the device's time.
  EXPECT_NEAR(shares.front(), 0.15 * 85 * 1.4, 2);
}

TEST(SliceControl, HoldsAShareAfterAChange) {
  SliceControl control({});
  ASSERT_TRUE(control.add(0, {}, 0));
  const auto run = [&](double rate, double throughput, uint64_t from_s, uint64_t to_s) {
    std::vector<uint64_t> changes;
    for (uint64_t s = from_s; s < to_s; ++s) {
      control.observe(0, second(rate, throughput, 0));
      if (control.decide(s * kSecond)) changes.push_back(s);
    }
    return changes;
  };
  // The first change needs no hold-down.
  EXPECT_EQ(run(60, 50, 1, 13), (std::vector<uint64_t>{5}));
  EXPECT_NEAR(control.share_percent(0), 30 * 1.2 * 1.4, 0.01);
  EXPECT_EQ(run(100, 70, 13, 20), (std::vector<uint64_t>{15}));
}

TEST(SliceControl, MakesNoSmallChangeWithoutNeed) {
  SliceControl control({});
  ASSERT_TRUE(control.add(0, {.knee_percent = 60}, 0));
  ASSERT_TRUE(control.add(1, {.knee_percent = 20}, 0));
  ASSERT_TRUE(control.set_terms(0, {.knee_percent = 58}, kSecond));  // an operator's changes count
  EXPECT_NEAR(control.share_percent(0), 58, 1e-6);
  // A shortfall that 4 % would cure is within the threshold.
  for (uint64_t s = 1; s < 60; ++s) {
    control.observe(0, second(100, 97, 0));
    EXPECT_FALSE(control.decide(s * kSecond));
  }
}

TEST(SliceControl, GroupsThatComeAndGoMoveTheOthersImmediately) {
  SliceControl control({.unmet_demands = UnmetDemands::kEqual});
  ASSERT_TRUE(control.add(0, {.knee_percent = 90}, 0));
  EXPECT_NEAR(control.share_percent(0), 90, 1e-6);
  ASSERT_TRUE(control.add(1, {.knee_percent = 80}, kSecond));
  EXPECT_NEAR(control.share_percent(0), 50, 1e-6);
  EXPECT_NEAR(control.share_percent(1), 50, 1e-6);
  ASSERT_TRUE(control.add(2, {.weight = 2, .knee_percent = 80}, kSecond + 1));
  EXPECT_NEAR(control.share_percent(0), 25, 1e-6);
  EXPECT_NEAR(control.share_percent(2), 50, 1e-6);
  ASSERT_TRUE(control.remove(0, kSecond + 2));
  EXPECT_NEAR(control.share_percent(1), 100.0 / 3, 1e-6);
  EXPECT_NEAR(control.share_percent(2), 200.0 / 3, 1e-6);
  EXPECT_EQ(control.share_percent(0), 0);
  ASSERT_TRUE(control.remove(2, kSecond + 3));
  EXPECT_NEAR(control.share_percent(1), 80, 1e-6);
}

// A group in its hold-down may have more than its part. Another grows only into what is free, and
// gets the rest once the hold-down has passed.
TEST(SliceControl, GrowsIntoFreeRoomUntilAHoldDownPasses) {
  SliceControl control({.unmet_demands = UnmetDemands::kEqual});
  ASSERT_TRUE(control.add(0, {}, 0));
  ASSERT_TRUE(control.add(1, {}, 0));
  uint64_t s = 1;
  for (; control.share_percent(0) < 50; ++s) {
    control.observe(0, second(300, 100, 0));
    control.decide(s * kSecond);
  }
  EXPECT_NEAR(control.share_percent(0), 70, 1e-6);  // it asks for 100
  const uint64_t held_until_s = s - 1 + 10;
  for (; s < held_until_s; ++s) {
    control.observe(0, second(300, 230, 0));
    control.observe(1, second(300, 100, 0));
    EXPECT_FALSE(control.decide(s * kSecond));
  }
  control.observe(0, second(300, 230, 0));
  control.observe(1, second(300, 100, 0));
  EXPECT_TRUE(control.decide(s * kSecond));
  EXPECT_NEAR(control.share_percent(0), 50, 1e-6);
  EXPECT_NEAR(control.share_percent(1), 50, 1e-6);
}

// The changes of the others are below the threshold, but together they are what one group lacks.
TEST(SliceControl, SmallChangesAreMadeIfAnotherGroupNeedsTheRoom) {
  SliceControl control({.demand = {.first_percent = 6.4}, .unmet_demands = UnmetDemands::kEqual});
  for (uint32_t id = 0; id < 9; ++id) ASSERT_TRUE(control.add(id, {.knee_percent = 10.4}, 0));
  ASSERT_TRUE(control.add(9, {}, 0));
  EXPECT_NEAR(control.share_percent(0), 10.4, 1e-6);
  EXPECT_NEAR(control.share_percent(9), 6.4, 1e-6);
  for (uint64_t s = 1; s < 40; ++s) {
    for (uint32_t id = 0; id < 9; ++id) control.observe(id, second(104, 103, 0));
    control.observe(9, second(104, 60, 0));
    control.decide(s * kSecond);
  }
  for (uint32_t id = 0; id < 10; ++id) EXPECT_NEAR(control.share_percent(id), 10, 0.01) << id;
}

TEST(SliceControl, RefusesWhatItCannotDivide) {
  SliceControl control({.demand = {.least_percent = 30}});
  ASSERT_TRUE(control.add(7, {}, 0));
  EXPECT_EQ(control.add(7, {}, 0).error().code, Code::kAlreadyExists);
  EXPECT_EQ(control.add(8, {.weight = 0}, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(control.add(8, {.knee_percent = 101}, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(control.remove(8, 0).error().code, Code::kNotFound);
  EXPECT_EQ(control.set_terms(8, {}, 0).error().code, Code::kNotFound);
  ASSERT_TRUE(control.add(8, {}, 0));
  ASSERT_TRUE(control.add(9, {}, 0));
  EXPECT_EQ(control.add(10, {}, 0).error().code, Code::kResourceExhausted);
  control.observe(10, second(1, 1, 1));  // has gone
  EXPECT_EQ(control.num_groups(), 3u);
}

// Random loads, groups and times: the shares never exceed the device, nor the knees.
TEST(SliceControl, SharesNeverExceedTheDevice) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    SliceControl control(
        {.unmet_demands = seed % 2 ? UnmetDemands::kEqual : UnmetDemands::kProportional});
    std::vector<double> knees(12, 0);
    for (uint64_t s = 1; s <= 500; ++s) {
      const auto id = static_cast<uint32_t>(random.below(12));
      if (random.below(20) == 0) {
        knees[id] = 100 * random.uniform();
        const GroupTerms terms{.weight = 0.5 + random.uniform(), .knee_percent = knees[id]};
        if (control.share_percent(id) > 0) {
          EXPECT_TRUE(control.remove(id, s * kSecond));
        } else {
          EXPECT_TRUE(control.add(id, terms, s * kSecond));
        }
      }
      for (uint32_t other = 0; other < 12; ++other)
        control.observe(other, second(200 * random.uniform(), 200 * random.uniform(), 0));
      control.decide(s * kSecond);
      EXPECT_LE(total_percent(control, 12), 100 + 1e-6);
      for (uint32_t other = 0; other < 12; ++other) {
        if (control.share_percent(other) == 0) continue;
        EXPECT_GE(control.share_percent(other), 1 - 1e-6);
        EXPECT_LE(control.share_percent(other), std::max(1.0, knees[other]) + 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace itif::slice
