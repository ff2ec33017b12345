// Max-min fair division by hand, and its properties on random demands.
#include "slice/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace itif::slice {
namespace {

constexpr double kNear = 1e-6;

std::vector<double> divided(const std::vector<Demand>& demands, const Division& division) {
  std::vector<double> shares(demands.size());
  divide(demands, division, shares);
  return shares;
}

std::vector<double> divided(const std::vector<double>& percents, UnmetDemands unmet) {
  std::vector<Demand> demands;
  for (const double percent : percents) demands.push_back({.percent = percent});
  return divided(demands, {.unmet_demands = unmet});
}

void expect_near(const std::vector<double>& shares, const std::vector<double>& expected) {
  ASSERT_EQ(shares.size(), expected.size());
  for (size_t i = 0; i < shares.size(); ++i) EXPECT_NEAR(shares[i], expected[i], 1e-3) << i;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(MaxMin, DemandsThatFitAreMet) {
  for (const UnmetDemands unmet : {UnmetDemands::kProportional, UnmetDemands::kEqual}) {
    expect_near(divided({8, 60}, unmet), {8, 60});
    expect_near(divided({20, 30, 50}, unmet), {20, 30, 50});
    expect_near(divided(std::vector<double>{}, unmet), {});
  }
}

// 100 / 3 meets 30. The other 70 percent do not meet 40 and 100.
TEST(MaxMin, UnsatisfiedGroupsShareTheRestByDemandOrEqually) {
  expect_near(divided({100, 30, 40}, UnmetDemands::kProportional), {50, 30, 20});
  expect_near(divided({100, 30, 40}, UnmetDemands::kEqual), {35, 30, 35});
}

// 30 fits a third. Half of the other 70 then fits 33, which 100 / 3 would not show for 34.
TEST(MaxMin, ADemandMayFitOnceSmallerOnesAreMet) {
  expect_near(divided({30, 34, 90}, UnmetDemands::kProportional), {30, 34, 36});
  expect_near(divided({30, 34, 90}, UnmetDemands::kEqual), {30, 34, 36});
}

TEST(MaxMin, WeightsMultiplyTheFairPart) {
  const std::vector<Demand> demands = {{.percent = 80, .weight = 3}, {.percent = 80, .weight = 1}};
  expect_near(divided(demands, {.unmet_demands = UnmetDemands::kEqual}), {75, 25});
  expect_near(divided(demands, {.unmet_demands = UnmetDemands::kProportional}), {75, 25});
  const std::vector<Demand> unlike = {{.percent = 90, .weight = 3}, {.percent = 60, .weight = 1}};
  expect_near(divided(unlike, {.unmet_demands = UnmetDemands::kProportional}), {81.818, 18.182});
}

// 3 x 76 : 60 would give the first group 79.2, more than it asks for.
TEST(MaxMin, APartBeyondTheDemandGoesToTheOthers) {
  const std::vector<Demand> demands = {{.percent = 76, .weight = 3}, {.percent = 60, .weight = 1}};
  expect_near(divided(demands, {.unmet_demands = UnmetDemands::kProportional}), {76, 24});
}

TEST(MaxMin, NoGroupStarves) {
  for (const UnmetDemands unmet : {UnmetDemands::kProportional, UnmetDemands::kEqual}) {
    const std::vector<Demand> demands = {{.percent = 100, .weight = 1000},
                                         {.percent = 100, .weight = 1},
                                         {.percent = 0, .weight = 1}};
    expect_near(divided(demands, {.unmet_demands = unmet}), {98, 1, 1});
    expect_near(divided(demands, {.least_percent = 40, .unmet_demands = unmet}),
                {33.333, 33.333, 33.333});
  }
}

struct Instance {
  std::vector<Demand> demands;
  Division division;

  double demand(size_t i) const {
    const double least = division.percent / static_cast<double>(demands.size());
    return std::max(demands[i].percent, std::min(division.least_percent, least));
  }
  double total() const {
    double total = 0;
    for (size_t i = 0; i < demands.size(); ++i) total += demand(i);
    return total;
  }
};

Instance random_instance(Random& random, UnmetDemands unmet) {
  Instance instance{.demands = {},
                    .division = {.percent = 50 + 50 * random.uniform(),
                                 .least_percent = 3 * random.uniform(),
                                 .unmet_demands = unmet}};
  const size_t num_groups = 1 + random.below(12);
  const bool has_weights = random.below(2) == 0;
  const double scale = random.below(2) == 0 ? 20 : 100;
  for (size_t i = 0; i < num_groups; ++i)
    instance.demands.push_back({.percent = scale * random.uniform(),
                                .weight = has_weights ? 0.2 + 5 * random.uniform() : 1});
  return instance;
}

// Gives out small steps, each to the unsatisfied group whose share per weight is least. All start
// at their lower bounds.
std::vector<double> filled_by_steps(const Instance& instance, double step) {
  const size_t n = instance.demands.size();
  const double least =
      std::min(instance.division.least_percent, instance.division.percent / static_cast<double>(n));
  std::vector<double> shares(n, least);
  for (double left = instance.division.percent - sum(shares); left > 0;) {
    size_t next = n;
    for (size_t i = 0; i < n; ++i) {
      if (shares[i] >= instance.demand(i)) continue;
      if (next == n ||
          shares[i] / instance.demands[i].weight < shares[next] / instance.demands[next].weight)
        next = i;
    }
    if (next == n) break;
    const double given = std::min({step, left, instance.demand(next) - shares[next]});
    shares[next] += given;
    left -= given;
  }
  return shares;
}

TEST(MaxMin, GivesOutAllThatIsAskedForAndNoMore) {
  Random random(1);
  for (int i = 0; i < 4000; ++i) {
    const Instance instance =
        random_instance(random, i % 2 ? UnmetDemands::kEqual : UnmetDemands::kProportional);
    const std::vector<double> shares = divided(instance.demands, instance.division);
    EXPECT_LE(sum(shares), instance.division.percent + kNear);
    EXPECT_NEAR(sum(shares), std::min(instance.division.percent, instance.total()), kNear);
    const double least = std::min(instance.division.least_percent,
                                  instance.division.percent / static_cast<double>(shares.size()));
    for (size_t g = 0; g < shares.size(); ++g) {
      EXPECT_LE(shares[g], instance.demand(g) + kNear);
      EXPECT_GE(shares[g], least - kNear);
    }
  }
}

// Plain max-min fairness: an unsatisfied group can gain only from groups that have no more per
// weight than it has, or from lower bounds.
TEST(MaxMin, EqualPartsTakeFromNoGroupThatHasLess) {
  Random random(2);
  size_t num_unsatisfied = 0;
  for (int i = 0; i < 2000; ++i) {
    const Instance instance = random_instance(random, UnmetDemands::kEqual);
    const std::vector<double> shares = divided(instance.demands, instance.division);
    for (size_t g = 0; g < shares.size(); ++g) {
      if (shares[g] >= instance.demand(g) - kNear) continue;
      ++num_unsatisfied;
      for (size_t other = 0; other < shares.size(); ++other) {
        if (shares[other] <= instance.division.least_percent + kNear) continue;
        EXPECT_LE(shares[other] / instance.demands[other].weight,
                  shares[g] / instance.demands[g].weight + kNear);
      }
    }
  }
  EXPECT_GT(num_unsatisfied, 1000u);
}

TEST(MaxMin, EqualPartsMatchFillingByTinySteps) {
  Random random(3);
  for (int i = 0; i < 40; ++i) {
    const Instance instance = random_instance(random, UnmetDemands::kEqual);
    const std::vector<double> expected = filled_by_steps(instance, 0.001);
    const std::vector<double> shares = divided(instance.demands, instance.division);
    for (size_t g = 0; g < shares.size(); ++g) EXPECT_NEAR(shares[g], expected[g], 0.05);
  }
}

// The same groups are satisfied as by equal parts, or more. The others have the same share per
// demand and weight.
TEST(MaxMin, ProportionalPartsMeetWhatEqualPartsMeet) {
  Random random(4);
  size_t num_unsatisfied = 0;
  for (int i = 0; i < 2000; ++i) {
    const Instance instance = random_instance(random, UnmetDemands::kProportional);
    Division equal = instance.division;
    equal.unmet_demands = UnmetDemands::kEqual;
    const std::vector<double> plain = divided(instance.demands, equal);
    const std::vector<double> shares = divided(instance.demands, instance.division);
    double level = 0;
    for (size_t g = 0; g < shares.size(); ++g) {
      const Demand& demand = instance.demands[g];
      if (plain[g] >= instance.demand(g) - kNear) {
        EXPECT_NEAR(shares[g], plain[g], kNear);
        continue;
      }
      if (shares[g] >= demand.percent - kNear) continue;
      if (shares[g] <= instance.division.least_percent + kNear) continue;
      ++num_unsatisfied;
      const double own = shares[g] / (demand.percent * demand.weight);
      if (level > 0) {
        EXPECT_NEAR(own, level, 1e-9);
      }
      level = own;
    }
  }
  EXPECT_GT(num_unsatisfied, 1000u);
}

}  // namespace
}  // namespace itif::slice
