// Groups have either the same CPUs or none in common.
#include "serving/group_cpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "base/random.h"

namespace itif::serving {
namespace {

using Cpus = std::vector<unsigned>;

class GroupCpusTest : public ::testing::Test {
 protected:
  GroupCpusTest() {
    for (const char* group : {"a", "b", "c"}) cpus.start(group);
  }
  std::string refusal(const std::string& group, const Cpus& list) {
    const Status given = cpus.give(group, list);
    EXPECT_FALSE(given);
    return given ? "" : given.error().message;
  }
  GroupCpus cpus{Cpus{7, 4, 5, 6}};
};

TEST_F(GroupCpusTest, GroupsWithoutTheirOwnShareTheRest) {
  for (const char* group : {"a", "b", "c"})
    EXPECT_EQ(cpus.of(group), (Cpus{7, 4, 5, 6})) << "as configured";
  ASSERT_TRUE(cpus.give("a", {5}));
  EXPECT_EQ(cpus.of("a"), Cpus{5});
  EXPECT_EQ(cpus.of("b"), (Cpus{4, 6, 7}));
  ASSERT_TRUE(cpus.give("b", {6, 7}));
  EXPECT_EQ(cpus.of("c"), Cpus{4});
  EXPECT_EQ(cpus.num_cpus("b"), 2u);
  ASSERT_TRUE(cpus.give("a", {}));
  EXPECT_EQ(cpus.of("a"), (Cpus{4, 5}));
  EXPECT_EQ(cpus.num_beside("a"), 2u);
}

TEST_F(GroupCpusTest, AGroupThatDoesNotRunKeepsItsOwn) {
  ASSERT_TRUE(cpus.give("b", {6, 7}));
  cpus.start("b");  // it moves to another device
  cpus.stop("b");
  EXPECT_EQ(cpus.of("a"), (Cpus{4, 5}));
  cpus.stop("b");
  EXPECT_EQ(cpus.of("a"), (Cpus{7, 4, 5, 6})) << "shared meanwhile";
  EXPECT_EQ(
      refusal("a", {4, 6}),
      "group a cannot have CPU 6: group b has CPUs 6-7 for itself; give both the same CPUs or "
      "different ones, or take them back with `itifctl group update b --cpus auto`");
  cpus.start("b");
  EXPECT_EQ(cpus.of("b"), (Cpus{6, 7}));
  EXPECT_EQ(cpus.of("a"), (Cpus{4, 5}));
}

TEST_F(GroupCpusTest, SeveralGroupsMayHaveTheSame) {
  ASSERT_TRUE(cpus.give("a", {4, 5}));
  ASSERT_TRUE(cpus.give("b", {4, 5}));
  EXPECT_EQ(cpus.of("c"), (Cpus{6, 7}));
  EXPECT_EQ(cpus.num_beside("a"), 2u);
  cpus.stop("a");
  EXPECT_EQ(cpus.of("c"), (Cpus{6, 7})) << "group b still has 4 and 5";
}

TEST_F(GroupCpusTest, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal("a", {3, 4}), "group a cannot have CPU 3: groups compute on CPUs 4-7");
  EXPECT_EQ(refusal("a", {4, 5, 6, 7}),
            "group a cannot have CPUs 4-7: of CPUs 4-7, none would be left for groups without CPUs "
            "of their own");
  ASSERT_TRUE(cpus.give("a", {4, 5}));
  EXPECT_FALSE(cpus.give("b", {5, 6}));
  EXPECT_FALSE(cpus.give("b", {6, 7}));
  EXPECT_EQ(cpus.own("b"), Cpus{}) << "a refusal changes nothing";
  ASSERT_TRUE(cpus.give("a", {5, 6})) << "its own CPUs do not hinder it";
  ASSERT_TRUE(cpus.give("a", {5, 6})) << "nor does the same setting";
}

TEST(GroupCpus, HasAllCpusOfTheProcessByDefault) {
  GroupCpus cpus({});
  cpus.start("a");
  EXPECT_EQ(cpus.of("a"), Cpus{});
  EXPECT_FALSE(cpus.give("a", {1023}));
}

// Two groups that run have the same CPUs or none in common after any changes, in any order of
// starts. Each change can be taken back.
TEST(GroupCpus, SetsAreEqualOrDisjoint) {
  Random random(7);
  const std::string names[] = {"a", "b", "c", "d"};
  for (int round = 0; round < 200; ++round) {
    GroupCpus cpus(Cpus{0, 1, 2, 3, 4, 5});
    std::set<std::string> running;
    for (int step = 0; step < 30; ++step) {
      const std::string& name = names[random.below(4)];
      if (random.below(3) == 0) {
        running.contains(name) ? cpus.stop(name) : cpus.start(name);
        if (!running.insert(name).second) running.erase(name);
        continue;
      }
      Cpus list;
      for (unsigned cpu = 0; cpu < 6; ++cpu)
        if (random.below(3) == 0) list.push_back(cpu);
      const Cpus before = cpus.own(name);
      if (cpus.give(name, list) && random.below(2) == 0) {
        ASSERT_TRUE(cpus.give(name, before));
      }
      for (const std::string& a : running)
        for (const std::string& b : running) {
          Cpus common;
          std::ranges::set_intersection(cpus.of(a), cpus.of(b), std::back_inserter(common));
          ASSERT_FALSE(cpus.of(a).empty());
          ASSERT_TRUE(common.empty() || cpus.of(a) == cpus.of(b)) << round << " " << step;
        }
    }
  }
}

}  // namespace
}  // namespace itif::serving
