// Shares of groups on a device that divides its time: set by control, equal, or tuned.
#include <gtest/gtest.h>

#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

class GroupSharesTest : public TenantServiceTest {
 protected:
  void start(const std::string& shares) {
    device.divide_time();
    config.device.shares = shares;
    remake();
    uint32_t id = 1;
    for (const char* name : {"a", "b", "c"}) {
      tenant::Record record = settings(id++);
      record.group = name;
      ASSERT_TRUE(admit(record));
    }
  }
  GroupShares::Share share(const std::string& name) {
    for (const GroupInfo& group : service->groups())
      if (group.name == name) return group.share;
    ADD_FAILURE() << "there is no group " << name;
    return {};
  }
  std::array<double, 3> percents() {
    return {share("a").percent, share("b").percent, share("c").percent};
  }
  void set(const std::string& name, uint32_t percent, uint32_t expected_before) {
    const auto before = service->set_share(name, percent);
    ASSERT_TRUE(before) << before.error().message;
    EXPECT_EQ(*before, expected_before);
  }
};

TEST_F(GroupSharesTest, GroupsWithoutAShareDivideTheRestInEqualParts) {
  start("equal");
  for (const double percent : percents()) EXPECT_NEAR(percent, 100.0 / 3, 1e-9);
  set("a", 50, 0);
  EXPECT_EQ(percents(), (std::array{50.0, 25.0, 25.0}));
  EXPECT_EQ(share("a").demand, 0);
  set("b", 40, 0);
  EXPECT_EQ(percents(), (std::array{50.0, 40.0, 10.0}));
  set("a", 80, 50);
  const double sum = 80 + 40 + 1;  // a group without a share has at least 1 %
  EXPECT_NEAR(share("a").percent, 80 * 100 / sum, 1e-9);
  EXPECT_NEAR(share("b").percent, 40 * 100 / sum, 1e-9);
  EXPECT_NEAR(share("c").percent, 100 / sum, 1e-9);
  set("a", 0, 80);
  EXPECT_EQ(percents(), (std::array{30.0, 40.0, 30.0}));
  ASSERT_TRUE(service->remove(1, kLong));
  EXPECT_EQ(share("b").percent, 40);
  EXPECT_EQ(share("c").percent, 60);
}

TEST_F(GroupSharesTest, TunedGroupsDivideWhatSetSharesLeave) {
  start("tuned");
  EXPECT_EQ(percents(), (std::array{30.0, 30.0, 30.0}));  // all demands fit
  EXPECT_EQ(share("b").demand, 30);
  set("a", 80, 0);
  EXPECT_EQ(percents(), (std::array{80.0, 10.0, 10.0}));
  EXPECT_EQ(share("a").demand, 0);
  tenant::Record with_objective = settings(2);
  with_objective.group = "b";
  with_objective.slo_ns = 25'000'000;
  ASSERT_TRUE(service->update(with_objective, false, {}));
  EXPECT_EQ(percents(), (std::array{80.0, 10.0, 10.0}));  // without load
  ASSERT_TRUE(service->remove(2, kLong));
  EXPECT_EQ(share("c").percent, 20);
  set("a", 0, 80);
  EXPECT_EQ(share("a").percent, 30);
  EXPECT_EQ(share("c").percent, 30);
}

TEST_F(GroupSharesTest, ADeviceThatDoesNotDivideItsTimeRefusesShares) {
  ASSERT_TRUE(admit(settings(1)));
  const std::string name = info().name;
  EXPECT_EQ(service->set_share(name, 50).error().code, Code::kUnsupported);
  EXPECT_EQ(share(name).percent, 100);
}

}  // namespace
}  // namespace itif::serving::test
