// Some hundred seeds of faults; `itif-sim faults --seeds 10000` runs more.
#include "sim/faults.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plan/planner_names.h"
#include "sched/policy_names.h"
#include "world.h"

namespace itif::sim {
namespace {

constexpr uint64_t kSeeds = 200;
constexpr uint64_t kScenarioSeeds = 1000;  // enough for every policy with either kind of model

TEST(Faults, InvariantsHold) {
  FaultFigures sum;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto figures = run_faults(seed, test::nic());
    ASSERT_TRUE(figures) << "itif-sim faults --first-seed " << seed
                         << " --seeds 1: " << figures.error().message;
    sum.add(*figures);
  }
  // Faults that do not happen find nothing.
  EXPECT_GT(sum.answered, 50 * kSeeds);
  EXPECT_GT(sum.generated, 50 * kSeeds);
  EXPECT_GT(sum.refused, kSeeds);
  EXPECT_GT(sum.lost, kSeeds);
  EXPECT_GT(sum.datagrams_damaged, kSeeds);
  EXPECT_GT(sum.device_faults, kSeeds / 4);
  EXPECT_GT(sum.tenants_added, kSeeds / 4);
  EXPECT_GT(sum.restarts, kSeeds / 8);
}

// Regression: no seed ran sjf, edf, das or slotted_das, joint, auto or, with an encoder, rows.
TEST(Faults, TheSeedsRunEveryPolicyAndPlanner) {
  for (const bool generates : {false, true}) {
    std::set<std::string> policies, planners;
    ModelChoice model;
    for (uint64_t seed = 1; seed <= kScenarioSeeds; ++seed) {
      const Scenario scenario = faults_scenario(seed);
      if ((scenario.model.decoder_layers > 0) != generates) continue;
      model = scenario.model;
      policies.insert(scenario.batching.scheduler);
      planners.insert(scenario.batching.planner);
    }
    for (const std::string_view name : sched::kPolicyNames)
      EXPECT_TRUE(policies.contains(std::string(name))) << name;
    for (const std::string_view name : plan::kPlannerNames)
      EXPECT_EQ(planners.contains(std::string(name)), check_planner(model, name).has_value())
          << name;
    for (const char* text : {"das:fair", "slotted_das:weighted,fair"})
      EXPECT_TRUE(policies.contains(text)) << text;
    for (const char* text : {"concat:row_tokens=64", "slotted:row_tokens=80,slot_tokens=40"})
      EXPECT_TRUE(planners.contains(text)) << text;
  }
}

TEST(Faults, ASeedReplays) {
  EXPECT_EQ(run_faults(7, test::nic())->log_hash, run_faults(7, test::nic())->log_hash);
}

}  // namespace
}  // namespace itif::sim
