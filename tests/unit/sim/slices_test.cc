// Groups that divide the simulated device: GSLICE's isolation and self-tuning, with the unmodified
// stages and executors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/parameters.h"
#include "sim/scenario_file.h"
#include "world.h"

namespace itif::sim::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

GroupScenario group_of(const char* name, const char* preset, double rate) {
  GroupScenario group;
  group.name = name;
  group.model = {.preset = preset};
  group.arrivals.rate = rate;
  group.lengths = {.kind = LengthKind::kUniform, .from = 16, .to = 128};
  return group;
}

Scenario scenario_of(SliceMode mode, std::vector<GroupScenario> groups) {
  Scenario s = small_scenario();
  s.data_plane.max_contexts = 16384;
  s.client.max_in_flight = 16384;
  static_cast<GroupScenario&>(s) = groups.front();
  s.other_groups.assign(groups.begin() + 1, groups.end());
  s.slices.mode = mode;
  return s;
}

double p99_ms(const Results& results, size_t tenant) {
  return static_cast<double>(results.tenants[tenant].latency_ns.percentile(99)) / 1e6;
}

// The light group's latency does not depend on a neighbour that asks for three times what its own
// part serves. Without parts, it waits for the neighbour's batches.
TEST(Slices, OverloadOfAGroupStaysInItsPart) {
  GroupScenario light = group_of("light", "bert-tiny", 500);
  light.slice.percent = 20;
  const GroupScenario calm = group_of("heavy", "bert-base", 10);
  GroupScenario flood = group_of("heavy", "bert-base", 20'000);
  flood.batching.max_wait_ns = 100'000'000;

  const double alone = p99_ms(run(scenario_of(SliceMode::kFixed, {light, calm})), 0);
  const Results beside = run(scenario_of(SliceMode::kFixed, {light, flood}));
  EXPECT_GT(beside.tenants[1].refused, 1000u);
  EXPECT_LT(p99_ms(beside, 0), 1.2 * alone);

  light.slice.percent = 0;
  EXPECT_GT(p99_ms(run(scenario_of(SliceMode::kNone, {light, flood})), 0), 3 * alone);
}

// A group with a request every few seconds lends its part meanwhile, as on a GPU.
TEST(Slices, AnIdleGroupLendsItsPartUntilItWorks) {
  GroupScenario busy = group_of("busy", "bert-base", 0);
  busy.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 256};
  const GroupScenario idle = group_of("idle", "bert-tiny", 0.2);
  const auto answered = [](const Results& results, size_t group) {
    return static_cast<double>(results.tenants[group].answered);
  };
  for (const SliceMode mode : {SliceMode::kFixed, SliceMode::kTuned}) {
    Scenario s = scenario_of(mode, {busy, idle});
    s.duration_ns = 15 * kSecond;
    const Results lends = run(s);
    s.slices.lends = false;
    const Results keeps = run(s);
    EXPECT_GT(answered(lends, 0), 1.15 * answered(keeps, 0));
    EXPECT_GT(answered(lends, 1), 0);
    EXPECT_EQ(answered(lends, 1), answered(keeps, 1));
    // Lent parts come and go with its requests.
    double least = 100, most = 0;
    for (const GroupInterval& interval : lends.groups[0].intervals) {
      least = std::min(least, interval.share_percent);
      most = std::max(most, interval.share_percent);
    }
    EXPECT_GT(most, 99);
    EXPECT_LT(least, 99);
  }
}

// Figure 16: two groups start with 30 %, too little for one and too much for the other.
TEST(Slices, SharesFollowTheLoadAndSettle) {
  GroupScenario heavy = group_of("heavy", "bert-base", 4000);
  GroupScenario light = group_of("light", "bert-tiny", 200);
  heavy.tenants[0].settings.slo_ns = light.tenants[0].settings.slo_ns = 50'000'000;
  Scenario s = scenario_of(SliceMode::kTuned, {heavy, light});
  s.slices.lends = false;
  s.duration_ns = 25 * kSecond;
  s.warmup_ns = 15 * kSecond;
  const Results results = run(s);
  const auto& grown = results.groups[0].intervals;
  const auto& shrunk = results.groups[1].intervals;
  ASSERT_GE(grown.size(), 25u);
  EXPECT_EQ(grown[0].share_percent, 30);
  EXPECT_EQ(shrunk[0].share_percent, 30);
  EXPECT_LT(static_cast<double>(grown[2].answered), 0.95 * static_cast<double>(grown[2].sent));
  EXPECT_GT(grown[24].share_percent, 35);
  EXPECT_LT(shrunk[24].share_percent, 15);
  for (size_t i = 15; i < 25; ++i) {
    EXPECT_EQ(grown[i].share_percent, grown[15].share_percent) << i;  // no oscillation
    EXPECT_EQ(shrunk[i].share_percent, shrunk[15].share_percent) << i;
  }
  for (size_t i = 0; i < grown.size() && i < shrunk.size(); ++i)
    EXPECT_LE(grown[i].share_percent + shrunk[i].share_percent, 100 + 1e-9) << i;
  for (const TenantResults& tenant : results.tenants) {
    EXPECT_GT(tenant.answered, 0.99 * static_cast<double>(tenant.sent));
    EXPECT_LT(static_cast<double>(tenant.latency_ns.percentile(50)), 50e6);
  }
}

// The heavy group's batches follow each other, and serve what arrives, on all that it is lent. It
// once seemed to need 88 %, and one in twenty of the light group's requests were late.
TEST(Slices, AGroupThatAlwaysComputesLeavesWhatItDoesNotNeed) {
  GroupScenario heavy = group_of("heavy", "albert-large", 600);
  GroupScenario light = group_of("light", "vit-base", 200);
  heavy.tenants[0].settings.slo_ns = light.tenants[0].settings.slo_ns = 50'000'000;
  Scenario s = scenario_of(SliceMode::kTuned, {heavy, light});
  s.duration_ns = 40 * kSecond;
  s.warmup_ns = 20 * kSecond;
  const Results results = run(s);
  const auto& shares = results.groups[0].intervals;
  ASSERT_GE(shares.size(), 40u);
  EXPECT_LT(shares[39].share_percent, 84);
  for (size_t i = 20; i < 40; ++i) EXPECT_EQ(shares[i].share_percent, shares[20].share_percent);
  for (const TenantResults& tenant : results.tenants)
    EXPECT_LT(static_cast<double>(tenant.latency_ns.percentile(99)), 50e6);
}

// The queue of the first seconds once made the share at which it was served seem too small, by luck
// of the arrivals: with some seeds the share stayed at 60 to 67 %.
TEST(Slices, TheShareDoesNotDependOnTheQueueAtTheStart) {
  for (const uint64_t seed : {1, 5, 9, 10, 12}) {
    GroupScenario heavy = group_of("heavy", "albert-large", 500);
    GroupScenario light = group_of("light", "vit-base", 200);
    heavy.tenants[0].settings.slo_ns = light.tenants[0].settings.slo_ns = 50'000'000;
    Scenario s = scenario_of(SliceMode::kTuned, {heavy, light});
    s.seed = seed;
    s.slices.lends = false;
    s.slices.first_percent = 30;
    s.slices.hold_down_ns = 2 * kSecond;
    s.slices.unmet_demands = slice::UnmetDemands::kEqual;
    s.duration_ns = 30 * kSecond;
    s.warmup_ns = 20 * kSecond;
    const Results results = run(s);
    const auto& shares = results.groups[0].intervals;
    ASSERT_GE(shares.size(), 30u);
    EXPECT_GT(shares[29].share_percent, 35) << "seed " << seed;
    EXPECT_LT(shares[29].share_percent, 48) << "seed " << seed;
  }
}

// Parts that no group asks for are lent: alone, a group has the whole device.
TEST(Slices, UnusedPartsAreLent) {
  GroupScenario busy = group_of("busy", "bert-base", 1);
  busy.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 32};
  GroupScenario late = group_of("late", "bert-tiny", 100);
  late.slice.from_ns = 4 * kSecond;
  Scenario s = scenario_of(SliceMode::kTuned, {busy, late});
  s.duration_ns = 12 * kSecond;
  const Results results = run(s);
  const auto& shares = results.groups[0].intervals;
  EXPECT_EQ(shares[0].share_percent, 100);
  EXPECT_EQ(shares[3].share_percent, 100);
  EXPECT_LT(shares[4].share_percent, 100);
  for (size_t i = 5; i < 12; ++i)
    EXPECT_NEAR(shares[i].share_percent + results.groups[1].intervals[i].share_percent, 100, 1e-9)
        << i;
  EXPECT_GT(shares[11].share_percent, 80);  // the light group asks for little
}

// Figure 15: a group that comes takes a part from the other, and its end gives it back.
TEST(Slices, AGroupComesAndGoes) {
  GroupScenario first = group_of("first", "bert-base", 9000);
  GroupScenario second = group_of("second", "bert-base", 9000);
  second.slice.from_ns = 12 * kSecond;
  second.slice.until_ns = 24 * kSecond;
  Scenario s = scenario_of(SliceMode::kTuned, {first, second});
  s.duration_ns = 40 * kSecond;
  const Results results = run(s);
  const auto& a = results.groups[0].intervals;
  const auto& b = results.groups[1].intervals;
  ASSERT_GE(a.size(), 40u);
  ASSERT_GE(b.size(), 24u);
  EXPECT_EQ(b[11].share_percent, 0);
  EXPECT_EQ(b[11].sent, 0u);
  EXPECT_GT(b[23].share_percent, 30);
  EXPECT_EQ(b[25].share_percent, 0);
  EXPECT_GT(a[11].share_percent, 60);
  EXPECT_LT(a[23].share_percent, 65);
  EXPECT_GT(a[39].share_percent, a[23].share_percent + 10);
  EXPECT_GT(results.tenants[1].answered, 0u);
}

TEST(Slices, FixedPartsOfGroupsWithoutOneAreEqual) {
  GroupScenario named = group_of("named", "bert-tiny", 50);
  named.slice.percent = 40;
  const Results results = run(scenario_of(
      SliceMode::kFixed, {named, group_of("b", "bert-tiny", 50), group_of("c", "bert-tiny", 50)}));
  EXPECT_EQ(results.groups[0].intervals[0].share_percent, 40);
  EXPECT_EQ(results.groups[1].intervals[0].share_percent, 30);
  EXPECT_EQ(results.groups[2].intervals[0].share_percent, 30);
}

TEST(Slices, GroupsAnswerWithTheirOwnWeights) {
  GroupScenario first = group_of("first", "bert-tiny", 300);
  first.tenants = {{.name = "a"}, {.name = "b"}};
  GroupScenario second = group_of("second", "minilm-l6", 300);
  second.tenants = {{.name = "a"}, {.name = "b"}};
  for (const SliceMode mode : {SliceMode::kNone, SliceMode::kFixed, SliceMode::kTuned}) {
    Scenario s = scenario_of(mode, {first, second});
    s.passes_marks = true;
    const Results results = run(s);
    EXPECT_EQ(results.wrong_answers, 0u);
    ASSERT_EQ(results.tenants.size(), 4u);
    for (const TenantResults& tenant : results.tenants) EXPECT_GT(tenant.answered, 50u);
  }
}

std::string error_of(const std::string& text) {
  Scenario s;
  const Status changed = change_scenario(text, s);
  return changed ? "" : changed.error().message;
}

TEST(Slices, SettingsWithoutEffectAreRefused) {
  EXPECT_EQ(error_of("slices: { mode = \"fixed\"; }; slice: { percent = 40.0; };"), "");
  EXPECT_NE(error_of("slice: { percent = 40.0; };").find("needs slices.mode fixed"),
            std::string::npos);
  EXPECT_NE(error_of("slices: { mode = \"fixed\"; }; slice: { knee = 40.0; };")
                .find("need slices.mode tuned"),
            std::string::npos);
  EXPECT_NE(error_of("slices: { mode = \"fixed\"; }; slice: { percent = 60.0; }; "
                     "groups = ( { name = \"a\"; }, { name = \"b\"; } );")
                .find("add up to 120 %"),
            std::string::npos);
  EXPECT_NE(error_of("groups = ( { name = \"a\"; }, { name = \"a\"; } );").find("named twice"),
            std::string::npos);
  EXPECT_NE(error_of("groups = ();").find("name at least one"), std::string::npos);
  EXPECT_NE(error_of("groups = ( { nam = \"a\"; } );").find("groups[0].nam: unknown key"),
            std::string::npos);
  EXPECT_NE(error_of("groups = ( { name = \"a\"; lengths: { from = 9; to = 5; }; }, { } );")
                .find("group 'a': lengths.from is above lengths.to"),
            std::string::npos);
  EXPECT_NE(error_of("slice: { from = \"11s\"; };").find("slice.from must be before"),
            std::string::npos);
}

TEST(Slices, TheFilesOwnSectionsAreDefaultsOfItsGroups) {
  Scenario s;
  ASSERT_TRUE(
      change_scenario("lengths: { from = 5; }; arrivals: { rate = 7.0; };"
                      "groups = ( { name = \"a\"; arrivals: { rate = 8.0; }; }, { } );",
                      s));
  ASSERT_EQ(s.num_groups(), 2u);
  EXPECT_EQ(s.group(0).arrivals.rate, 8);
  EXPECT_EQ(s.group(1).arrivals.rate, 7);
  EXPECT_EQ(s.group(0).lengths.from, 5u);
  EXPECT_EQ(s.group(1).name, "group2");
  const Status varied = set_parameter(s, "arrivals.rate", "9");
  ASSERT_FALSE(varied);
  EXPECT_NE(varied.error().message.find("several groups"), std::string::npos);
  EXPECT_TRUE(set_parameter(s, "slices.mode", "tuned"));
}

}  // namespace
}  // namespace itif::sim::test
