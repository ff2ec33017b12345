// Groups have either the same CPUs or none in common.
#include "serving/group_cpus.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace itif::serving {
namespace {

using Cpus = std::vector<unsigned>;

class GroupCpusTest : public ::testing::Test {
 protected:
  GroupCpusTest() {
    cpus.add(0, "a");
    cpus.add(1, "b");
    cpus.add(2, "c");
  }
  std::string refusal(uint16_t number, const Cpus& list) {
    const Status given = cpus.give(number, list);
    EXPECT_FALSE(given);
    return given ? "" : given.error().message;
  }
  GroupCpus cpus{Cpus{7, 4, 5, 6}};
};

TEST_F(GroupCpusTest, GroupsWithoutTheirOwnShareTheRest) {
  for (uint16_t group : {0, 1, 2}) EXPECT_EQ(cpus.of(group), (Cpus{7, 4, 5, 6})) << "as configured";
  ASSERT_TRUE(cpus.give(0, {5}));
  EXPECT_EQ(cpus.of(0), Cpus{5});
  EXPECT_EQ(cpus.of(1), (Cpus{4, 6, 7}));
  EXPECT_EQ(cpus.of(2), (Cpus{4, 6, 7}));
  ASSERT_TRUE(cpus.give(1, {6, 7}));
  EXPECT_EQ(cpus.of(2), Cpus{4});
  ASSERT_TRUE(cpus.give(0, {}));
  EXPECT_EQ(cpus.of(0), (Cpus{4, 5}));
  cpus.remove(1);
  EXPECT_EQ(cpus.of(0), (Cpus{7, 4, 5, 6}));
}

TEST_F(GroupCpusTest, SeveralGroupsMayHaveTheSame) {
  ASSERT_TRUE(cpus.give(0, {4, 5}));
  ASSERT_TRUE(cpus.give(1, {4, 5}));
  EXPECT_EQ(cpus.of(2), (Cpus{6, 7}));
  cpus.remove(0);
  EXPECT_EQ(cpus.of(2), (Cpus{6, 7})) << "group b still has 4 and 5";
}

TEST_F(GroupCpusTest, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal(0, {3, 4}), "group a cannot have CPU 3: groups compute on CPUs 4-7");
  ASSERT_TRUE(cpus.give(0, {4, 5}));
  EXPECT_EQ(refusal(1, {5, 6}),
            "group b cannot have CPU 5: group a has CPUs 4-5 for itself; give both groups the same "
            "CPUs, or different ones");
  EXPECT_EQ(refusal(1, {6, 7}), "group b cannot have CPUs 6-7: none would be left for group c");
  EXPECT_EQ(cpus.own(1), Cpus{}) << "a refusal changes nothing";
  ASSERT_TRUE(cpus.give(0, {5, 6})) << "its own CPUs do not hinder it";
}

TEST_F(GroupCpusTest, ALateGroupComputesOnAllIfNoneIsLeft) {
  cpus.remove(2);
  ASSERT_TRUE(cpus.give(0, {4, 5}));
  ASSERT_TRUE(cpus.give(1, {6, 7}));
  cpus.add(3, "late");
  EXPECT_EQ(cpus.of(3), (Cpus{7, 4, 5, 6}));
}

TEST(GroupCpus, HasAllCpusOfTheProcessByDefault) {
  GroupCpus cpus({});
  cpus.add(0, "a");
  EXPECT_EQ(cpus.of(0), Cpus{});
  EXPECT_FALSE(cpus.give(0, {1023}));
}

// Two groups have the same CPUs or none in common after any changes.
TEST(GroupCpus, SetsAreEqualOrDisjoint) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    GroupCpus cpus(Cpus{0, 1, 2, 3, 4, 5});
    for (uint16_t group = 0; group < 4; ++group) cpus.add(group, std::string(1, 'a' + group));
    for (int step = 0; step < 20; ++step) {
      Cpus list;
      for (unsigned cpu = 0; cpu < 6; ++cpu)
        if (random.below(3) == 0) list.push_back(cpu);
      (void)cpus.give(static_cast<uint16_t>(random.below(4)), list);
      for (uint16_t a = 0; a < 4; ++a)
        for (uint16_t b = 0; b < a; ++b) {
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
