// Groups with CPUs of their own: where their streams run, and what happens to their shares.
#include <gtest/gtest.h>

#include "device/threads.h"
#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

using Cpus = std::vector<unsigned>;

class TenantServiceCpusTest : public TenantServiceTest {
 protected:
  void start(const std::string& shares) {
    device.divide_time();
    config.device.shares = shares;
    executor_cpus = {0, 1, 2};
    remake();
    add_group(1, "a");
    add_group(2, "b");
  }
  void add_group(uint32_t id, const std::string& name) {
    tenant::Record record = settings(id);
    record.group = name;
    ASSERT_TRUE(admit(record));
  }
  GroupInfo group(const std::string& name) {
    for (const GroupInfo& group : service->groups())
      if (group.name == name) return group;
    ADD_FAILURE() << "there is no group " << name;
    return {};
  }
  void expect_last_streams(std::vector<Cpus> expected) {
    ASSERT_GE(device.shares.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(device.shares[device.shares.size() - expected.size() + i].cpus, expected[i]) << i;
  }
};

TEST_F(TenantServiceCpusTest, MoveTheOtherGroupsToTheRest) {
  start("equal");
  expect_last_streams({{0, 1, 2}, {0, 1, 2}});
  EXPECT_EQ(service->set_cpus("a", {1}).value(), Cpus{}) << "none before";
  expect_last_streams({{1}, {0, 2}});
  EXPECT_EQ(group("a").own_cpus, Cpus{1});
  EXPECT_EQ(group("a").share.percent, 100) << "of its CPUs";
  EXPECT_EQ(group("b").own_cpus, Cpus{});
  EXPECT_EQ(group("b").share.percent, 100);
  add_group(3, "c");
  expect_last_streams({{0, 2}});
  EXPECT_EQ(group("b").share.percent, 50);
  EXPECT_EQ(service->set_cpus("a", {}).value(), Cpus{1});
  expect_last_streams({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}});
}

TEST_F(TenantServiceCpusTest, GroupsWithTheSameCpusDivideTheirTime) {
  start("equal");
  add_group(3, "c");
  ASSERT_TRUE(service->set_cpus("a", {0, 1}));
  ASSERT_TRUE(service->set_cpus("b", {0, 1}));
  EXPECT_EQ(service->set_weight("a", 3).value(), 1u);
  EXPECT_EQ(group("a").share.percent, 75);
  EXPECT_EQ(group("b").share.percent, 25);
  EXPECT_EQ(group("c").share.percent, 100);
  ASSERT_TRUE(service->set_share("a", 80));
  EXPECT_EQ(group("a").share.percent, 80);
  EXPECT_EQ(group("b").share.percent, 20);
  EXPECT_EQ(group("c").share.percent, 100);
}

TEST_F(TenantServiceCpusTest, AreNotTuned) {
  start("tuned");
  EXPECT_GT(group("a").share.demand, 0);
  ASSERT_TRUE(service->set_cpus("a", {1}));
  EXPECT_EQ(group("a").share.demand, 0);
  EXPECT_GT(group("b").share.demand, 0);
  ASSERT_TRUE(service->set_cpus("a", {}));
  EXPECT_GT(group("a").share.demand, 0);
}

TEST_F(TenantServiceCpusTest, AreKeptForAGroupOfThatName) {
  device.divide_time();
  executor_cpus = {0, 1, 2};
  remake();
  std::map<std::string, control::GroupSettings> kept;
  kept["b"].cpus = {2};
  kept["c"].cpus = {2, 7};
  service->expect_groups(std::move(kept));
  add_group(1, "a");
  add_group(2, "b");
  expect_last_streams({{0, 1, 2}, {2}, {0, 1}});
  add_group(3, "c");  // it cannot have CPU 7, so it shares
  expect_last_streams({{0, 1}});
  ASSERT_TRUE(service->remove(2, kLong));
  expect_last_streams({{0, 1, 2}, {0, 1, 2}});
  EXPECT_FALSE(service->set_cpus("a", {1, 2})) << "group b keeps CPU 2";
  EXPECT_EQ(service->set_cpus("b", {}).value(), Cpus{2}) << "although it does not run";
  ASSERT_TRUE(service->set_cpus("a", {1, 2}));
  EXPECT_EQ(service->set_cpus("b", {}).error().code, Code::kNotFound);
  EXPECT_EQ(service->set_cpus("none", {0}).error().code, Code::kNotFound);
  EXPECT_EQ(service->set_cpus("a", {5}).error().code, Code::kInvalidArgument);
}

// A stream that cannot be made must not end the process, also if all CPUs but one are taken.
TEST_F(TenantServiceCpusTest, FailuresAmongManyTakeAllBack) {
  start("equal");
  add_group(3, "c");
  ASSERT_TRUE(service->set_cpus("a", {0}));
  ASSERT_TRUE(service->set_cpus("b", {1}));
  device.has_no_stream = true;
  EXPECT_FALSE(service->set_cpus("b", {0}));
  EXPECT_FALSE(service->set_cpus("a", {}));
  device.has_no_stream = false;
  EXPECT_EQ(group("a").own_cpus, Cpus{0});
  EXPECT_EQ(group("b").own_cpus, Cpus{1});
  EXPECT_EQ(group("c").own_cpus, Cpus{});
  ASSERT_TRUE(service->set_cpus("b", {0}));
  expect_last_streams({{0}, {1, 2}});
}

TEST_F(TenantServiceCpusTest, AFailureTakesAllBack) {
  start("equal");
  device.has_no_stream = true;
  EXPECT_FALSE(service->set_cpus("a", {1}));
  device.has_no_stream = false;
  EXPECT_EQ(group("a").own_cpus, Cpus{});
  ASSERT_TRUE(service->set_cpus("b", {1}));
  expect_last_streams({{0, 2}, {1}});
}

}  // namespace
}  // namespace itif::serving::test
