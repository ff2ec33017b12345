// Batch policies by name, with settings.
#include "sched/policy_spec.h"

#include <gtest/gtest.h>

#include "sched/batch_policy.h"
#include "sched/policy_names.h"

namespace itif::sched {
namespace {

std::string error_of(std::string_view text) {
  const auto spec = parse_policy_spec(text);
  if (spec) return "";
  EXPECT_EQ(spec.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(make_policy(text, {}));
  return spec.error().message;
}

TEST(PolicySpec, KnowsEveryPolicyByName) {
  for (const std::string_view name : kPolicyNames) {
    const auto spec = parse_policy_spec(name);
    ASSERT_TRUE(spec) << name;
    EXPECT_EQ(spec->name, name);
    EXPECT_EQ(spec->eta, 0.8);
    EXPECT_FALSE(spec->weighted || spec->fair);
  }
}

TEST(PolicySpec, ReadsSettings) {
  const auto spec = parse_policy_spec("slotted_das:fair,eta=0.25,weighted");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->name, "slotted_das");
  EXPECT_EQ(spec->eta, 0.25);
  EXPECT_TRUE(spec->fair);
  EXPECT_TRUE(spec->weighted);
  EXPECT_FALSE(parse_policy_spec("das:fair")->weighted);
  EXPECT_EQ(parse_policy_spec("das:eta=1e-3")->eta, 0.001);
}

TEST(PolicySpec, RefusesByName) {
  EXPECT_EQ(error_of("magic"),
            "'magic' is not one of: fair, fcfs, lcfs, sjf, edf, das, slotted_das");
  EXPECT_EQ(error_of(""), "'' is not one of: fair, fcfs, lcfs, sjf, edf, das, slotted_das");
  EXPECT_EQ(error_of("fair:eta=0.5"), "'fair' has no setting 'eta=0.5'");
  for (const char* setting : {"", "eta", "q=0.5", "fair=1", " fair", "fair,", "eta=0.5,slot=3"})
    EXPECT_NE(error_of("das:" + std::string(setting)).find("use eta=NUMBER, weighted or fair"),
              std::string::npos)
        << setting;
  for (const char* eta : {"0", "1", "-0.5", "nan", "inf", "", "0.5x", " 0.5", "0,5"})
    EXPECT_NE(error_of("das:eta=" + std::string(eta)).find("use a number between 0 and 1"),
              std::string::npos)
        << eta;
  EXPECT_EQ(error_of("das:eta=0.2,eta=0.9"), "'das': 'eta' is set twice");
  EXPECT_EQ(error_of("slotted_das:fair,eta=0.2,fair"), "'slotted_das': 'fair' is set twice");
  EXPECT_EQ(error_of("das:weighted,weighted"), "'das': 'weighted' is set twice");
}

}  // namespace
}  // namespace itif::sched
