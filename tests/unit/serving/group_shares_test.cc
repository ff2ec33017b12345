// Shares of groups on a device that divides its time: set by control, equal, or tuned.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "base/log.h"
#include "serving/knee_file.h"
#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

struct ScratchDirectory {
  ScratchDirectory() { mkdtemp(path.data()); }
  ~ScratchDirectory() { std::filesystem::remove_all(path); }
  std::string path = ::testing::TempDir() + "itif-shares-XXXXXX";
};

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
  // Groups "a" and "b" on a device that divides its processors.
  void start_to_measure(const ScratchDirectory& state, const std::string& shares) {
    config.control.state_dir = state.path;
    config.device.shares = shares;
    config.batching.overlap = "off";  // passes are timed by the clock
    device.divide_processors();
    remake();
    ASSERT_TRUE(admit(of_group(1, "a")));
    ASSERT_TRUE(admit(of_group(2, "b")));
  }
  // Groups "a" and "b" on a device that divides its processors.
  void start_to_lend(const std::string& shares) {
    config.device.shares = shares;
    device.divide_processors();
    remake();
    ASSERT_TRUE(admit(of_group(1, "a")));
    ASSERT_TRUE(admit(of_group(2, "b")));
  }
  // Runs a batch of one request.
  void run(uint16_t group) {
    static constexpr uint16_t kToken = 5;
    static const request::Piece kPiece{reinterpret_cast<const std::byte*>(&kToken), 2};
    request::Request request;
    request.payload_kind = wire::PayloadKind::kTokensU16;
    request.payload_bytes = 2;
    request.pieces = std::span(&kPiece, 1);
    inbox(group)->push(&request);
    pipeline::ReturnRing::Item returned;
    while (pipeline->workers()[0]->returns().pop(&returned, 1) == 0) std::this_thread::yield();
    std::free(request.result.data);
  }
  // The shares that the streams have, lent parts included.
  std::pair<double, double> given() {
    return {device.percents[0].load(), device.percents[1].load()};
  }
  // Runs batches of one group, or of none, until the streams have the shares. Returns false if they
  // do not get them within five seconds.
  bool reach(const std::pair<double, double>& wanted, std::optional<uint16_t> busy) {
    for (const uint64_t end_ns = clock.now_ns() + 5'000'000'000; clock.now_ns() < end_ns;) {
      if (std::abs(given().first - wanted.first) < 1e-6 &&
          std::abs(given().second - wanted.second) < 1e-6)
        return true;
      if (busy)
        run(*busy);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  // Groups b, c and d ask for 30, 40 and 100 %: a tuned group starts at its knee, or at 30 %.
  // Shares do not follow smaller changes of their targets, as after a decision in between.
  static constexpr double kUnchanged = 0.051;
  void divide_30_40_100(const std::string& unmet_demands) {
    const ScratchDirectory state;
    config.device.unmet_demands = unmet_demands;
    start_to_measure(state, "tuned");
    groups[0]->on_pass = [](uint32_t, uint32_t) {};
    ASSERT_TRUE(service->measure_knee("a", {}));
    const std::string file = std::filesystem::directory_iterator(state.path + "/profiles")->path();
    slice::KneeProfile profile = read_knee_profile(file).value();
    uint32_t id = 3;
    for (const auto& [name, knee] : {std::pair("c", 40.0), std::pair("d", 100.0)}) {
      profile.curves = {{.requests = 8, .tokens = 64, .points = {{knee, 1}}}};
      ASSERT_TRUE(write_knee_profile(profile, file));
      ASSERT_TRUE(admit(of_group(id++, name)));
      EXPECT_EQ(share(name).demand, knee);
    }
    EXPECT_EQ(share("b").demand, 30);
    ASSERT_TRUE(service->remove(1, kLong));
  }
  // All groups ask for 30 %, but b and c have 20 % together.
  void divide_by_weight(const std::string& unmet_demands) {
    config.device.unmet_demands = unmet_demands;
    start("tuned");
    set("a", 80, 0);
    EXPECT_EQ(percents(), (std::array{80.0, 10.0, 10.0}));
    ASSERT_TRUE(service->set_weight("b", 3));
    EXPECT_NEAR(share("b").percent, 15, 1e-6);
    EXPECT_NEAR(share("c").percent, 5, 1e-6);
    EXPECT_EQ(share("b").demand, 30) << "a weight does not change what the group asks for";
    ASSERT_TRUE(service->remove(2, kLong));
    EXPECT_NEAR(share("c").percent, 20, 1e-6);
    ASSERT_TRUE(admit(of_group(2, "b")));
    EXPECT_NEAR(share("b").percent, 15, 15 * kUnchanged) << "kept without tenants";
    set("a", 0, 80);
    EXPECT_EQ(percents(), (std::array{30.0, 30.0, 30.0})) << "met demands know no weight";
  }
  static tenant::Record of_group(uint32_t id, const char* group) {
    tenant::Record record = settings(id);
    record.group = group;
    return record;
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
  ASSERT_TRUE(service->update(with_objective, TenantService::Loads::kMissing, {}));
  EXPECT_EQ(percents(), (std::array{80.0, 10.0, 10.0}));  // without load
  ASSERT_TRUE(service->remove(2, kLong));
  EXPECT_EQ(share("c").percent, 20);
  set("a", 0, 80);
  EXPECT_EQ(share("a").percent, 30);
  EXPECT_EQ(share("c").percent, 30);
}

TEST_F(GroupSharesTest, WeightsDivideWhatSetSharesLeave) {
  start("equal");
  EXPECT_EQ(service->set_weight("a", 3).value(), 1u);
  EXPECT_EQ(share("a").weight, 3u);
  EXPECT_EQ(percents(), (std::array{60.0, 20.0, 20.0}));
  set("b", 60, 0);
  EXPECT_EQ(percents(), (std::array{30.0, 60.0, 10.0}));
  EXPECT_EQ(service->set_weight("b", 500).value(), 1u);
  EXPECT_EQ(percents(), (std::array{30.0, 60.0, 10.0})) << "a set share has no weight";
  set("b", 0, 60);
  EXPECT_EQ(percents(), (std::array{1.0, 98.0, 1.0})) << "the least share, for any weight";
  EXPECT_EQ(service->set_weight("b", 1).value(), 500u);
  ASSERT_TRUE(service->remove(1, kLong));
  EXPECT_EQ(share("b").percent, 50);
  ASSERT_TRUE(admit(of_group(1, "a")));
  EXPECT_EQ(percents(), (std::array{60.0, 20.0, 20.0})) << "kept without tenants";
  EXPECT_EQ(service->set_weight("none", 2).error().code, Code::kNotFound);
}

TEST_F(GroupSharesTest, UnmetDemandsGetPartsByWeight) {
  divide_by_weight("proportional");
}

TEST_F(GroupSharesTest, UnmetDemandsGetPartsByWeightAloneIfConfigured) {
  divide_by_weight("equal");
}

TEST_F(GroupSharesTest, ARestartKeepsTheWeights) {
  config.device.shares = "equal";
  device.divide_processors();
  remake();
  service->expect_groups({{"b", {.weight = 4}}});
  ASSERT_TRUE(admit(of_group(1, "a")));
  ASSERT_TRUE(admit(of_group(2, "b")));
  EXPECT_NEAR(share("a").percent, 20, 1e-9);
  EXPECT_NEAR(share("b").percent, 80, 1e-9);
  EXPECT_EQ(share("b").weight, 4u);
  EXPECT_NEAR(given().first, 20, 1e-9) << "the streams have these shares, too";
  EXPECT_NEAR(given().second, 80, 1e-9);
}

// Passes take 5 ms on a share of 60 % or more, and 40 ms on a smaller one. A threshold of 100 %
// leaves room for the noise of a busy machine.
TEST_F(GroupSharesTest, AMeasuredKneeBoundsATunedGroup) {
  std::set<double> measured_percents;
  const ScratchDirectory state;
  start_to_measure(state, "tuned");
  EXPECT_EQ(service->measure_knee("none", {}).error().code, Code::kNotFound);
  EXPECT_EQ(service->measure_knee("a", {}).error().code, Code::kUnsupported) << "it has no passes";
  EXPECT_EQ(service->knee("a").error().code, Code::kNotFound);
  groups[0]->on_pass = [&](uint32_t, uint32_t) {
    const double percent = device.percents[0];
    measured_percents.insert(percent);
    const bool is_slow = percent < 60;
    std::this_thread::sleep_for(std::chrono::milliseconds(is_slow ? 40 : 5));
  };
  std::vector<double> fractions;
  ASSERT_TRUE(service->measure_knee("a", [&](const std::string& stage, double fraction) {
    EXPECT_EQ(stage, "measuring the knee");
    fractions.push_back(fraction);
  }));
  EXPECT_EQ(measured_percents, (std::set<double>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  EXPECT_FALSE(fractions.empty());
  EXPECT_TRUE(std::ranges::is_sorted(fractions));
  const auto knee = service->knee("a");
  ASSERT_TRUE(knee) << knee.error().message;
  EXPECT_EQ((*knee)->knee_percent(1.0), 60);
  const double bound = std::min(70.0, (*knee)->knee_percent());  // b asks for 30 %
  EXPECT_EQ(share("a").demand, 30) << "as before the measurement";
  EXPECT_EQ(share("a").percent, 30) << "as before the measurement";
  EXPECT_EQ(service->set_share("a", 80).value(), 0u) << "the setting has not changed";
  ASSERT_TRUE(service->set_share("a", 0));
  ASSERT_TRUE(service->remove(1, kLong));
  EXPECT_EQ(service->knee("a").error().code, Code::kNotFound) << "there is no such group";
  ASSERT_TRUE(admit(of_group(1, "a")));
  EXPECT_EQ(service->knee("a").value()->knee_percent(1.0), 60) << "kept";
  EXPECT_NEAR(share("a").percent, bound, 1e-9) << "it starts at its kept knee";
  groups.back()->on_pass = [](uint32_t, uint32_t) {};
  ASSERT_TRUE(service->measure_knee("a", {}));
  EXPECT_LE(share("a").demand, service->knee("a").value()->knee_percent());
  EXPECT_EQ(service->knee("b").error().code, Code::kNotFound);
}

// A group that waits lends its part after a second; a measured group borrows none.
TEST_F(GroupSharesTest, AMeasuredGroupBorrowsNothing) {
  const ScratchDirectory state;
  start_to_measure(state, "equal");
  std::set<double> measured_percents;
  groups[0]->on_pass = [&](uint32_t, uint32_t) {
    measured_percents.insert(device.percents[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // b is idle for long
  };
  ASSERT_TRUE(service->measure_knee("a", {}));
  EXPECT_EQ(measured_percents, (std::set<double>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  EXPECT_EQ(share("a").percent, 50);
}

TEST_F(GroupSharesTest, UnmetDemandsGetProportionalParts) {
  divide_30_40_100("proportional");
  EXPECT_NEAR(share("b").percent, 30, 1e-6);
  EXPECT_NEAR(share("c").percent, 20, 20 * kUnchanged) << "less than a group that asks for less";
  EXPECT_NEAR(share("d").percent, 50, 50 * kUnchanged);
}

TEST_F(GroupSharesTest, UnmetDemandsGetEqualPartsByDefault) {
  divide_30_40_100(config::Device().unmet_demands);
  EXPECT_NEAR(share("b").percent, 30, 1e-6);
  EXPECT_NEAR(share("c").percent, 35, 35 * kUnchanged);
  EXPECT_NEAR(share("d").percent, 35, 1e-6);
}

// A device whose groups have processors of their own does not give them to others by itself.
TEST_F(GroupSharesTest, AGroupWithoutWorkLendsItsProcessorsUntilItWorksAgain) {
  start_to_lend("equal");
  EXPECT_TRUE(reach({50, 50}, std::nullopt)) << given().first << ", " << given().second;
  EXPECT_TRUE(reach({100, 0}, 0)) << given().first << ", " << given().second;
  EXPECT_EQ(share("b").percent, 50) << "its part remains its own";
  EXPECT_TRUE(reach({50, 50}, 1)) << given().first << ", " << given().second;
  set("b", 80, 0);
  EXPECT_EQ(given(), std::pair(20.0, 80.0));
  EXPECT_TRUE(reach({0, 100}, 1)) << "a set share can borrow, too";
  ASSERT_TRUE(service->remove(2, kLong));
  EXPECT_EQ(device.percents[0], 100);
}

// Both start with 30 %, and what neither asks for is lent to both.
TEST_F(GroupSharesTest, ATunedGroupWithoutWorkLendsItsProcessorsUntilItWorksAgain) {
  start_to_lend("tuned");
  EXPECT_TRUE(reach({50, 50}, std::nullopt)) << given().first << ", " << given().second;
  groups[0]->on_forward = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  EXPECT_TRUE(reach({100, 0}, 0)) << given().first << ", " << given().second;
  EXPECT_EQ(share("b").percent, 30) << "its part remains its own";
  // A group that needs all of the borrowed device asks for that. It would ask for 33 % if it had
  // needed all of its own 30 %.
  for (const uint64_t end_ns = clock.now_ns() + 20'000'000'000;
       share("a").demand == 30 && clock.now_ns() < end_ns;)
    run(0);
  EXPECT_GT(share("a").demand, 45);
  EXPECT_EQ(share("b").demand, 30);
  EXPECT_NEAR(given().first, 100, 1e-6) << "a change of shares takes back nothing that is lent";
  EXPECT_EQ(given().second, 0);
  const auto has_its_part_back = [&] {
    const double percent = share("b").percent;
    return std::abs(given().second - percent * 100 / (percent + share("a").percent)) < 1e-6;
  };
  for (const uint64_t end_ns = clock.now_ns() + 5'000'000'000;
       !has_its_part_back() && clock.now_ns() < end_ns;)
    run(1);
  EXPECT_TRUE(has_its_part_back()) << given().first << ", " << given().second;
  set("b", 80, 0);
  EXPECT_TRUE(reach({0, 100}, 1)) << "a set share can borrow from a tuned one";
  EXPECT_TRUE(reach({100, 0}, 0)) << "a tuned share can borrow from a set one";
  ASSERT_TRUE(service->remove(2, kLong));
  EXPECT_NEAR(device.percents[0], 100, 1e-6);
}

TEST_F(GroupSharesTest, ADeviceThatDoesNotDivideItsTimeRefusesShares) {
  ASSERT_TRUE(admit(settings(1)));
  const std::string name = info().name;
  EXPECT_EQ(service->set_share(name, 50).error().code, Code::kUnsupported);
  EXPECT_EQ(service->set_weight(name, 2).error().code, Code::kUnsupported);
  EXPECT_EQ(share(name).percent, 100);
}

TEST_F(GroupSharesTest, MoreGroupsThanSlicesAreLogged) {
  device.divide_processors(2);
  remake();
  ASSERT_TRUE(admit(of_group(1, "a")));
  std::array<bool, 3> logged{};
  for (const uint32_t id : {2u, 3u, 4u}) {
    ::testing::internal::CaptureStderr();
    ASSERT_TRUE(log::reopen());  // standard error is another file
    const Status admitted = admit(of_group(id, std::array{"b", "c", "d"}[id - 2]));
    logged[id - 2] = ::testing::internal::GetCapturedStderr().find(
                         "more groups than the 2 slices") != std::string::npos;
    ASSERT_TRUE(admitted) << admitted.error().message;
  }
  ASSERT_TRUE(log::reopen());
  EXPECT_EQ(logged, (std::array{false, true, false})) << "once";
}

// While a new group is profiled, its share is the least one.
TEST_F(GroupSharesTest, AGroupThatYieldsHasTheLeastShareUntilItBegins) {
  device.divide_time();
  const auto make_stage = [&](const char* name) {
    return execution::GroupStage::create(name, std::make_unique<FakeGroup>(), device, clock, {}, {})
        .value();
  };
  const auto serves = make_stage("serves"), is_new = make_stage("new");
  for (const bool tunes : {false, true}) {
    GroupShares shares(clock, {.tunes = tunes});
    shares.add(0, *serves, {.set_percent = tunes ? 0u : 60u});
    const double before = shares.share(0).percent;
    shares.add(1, *is_new, {.set_percent = 40, .yields = true});
    EXPECT_EQ(shares.share(0).percent, before) << "the others keep theirs";
    EXPECT_EQ(shares.share(1).percent, 1);
    shares.set_objective(1, 1'000'000);
    shares.set(1, 0);
    EXPECT_EQ(shares.share(1).percent, 1);
    shares.begin(1);
    EXPECT_EQ(shares.share(1).percent, tunes ? 30 : 40);
    shares.remove(1);
    shares.add(1, *is_new, {.yields = true});
    shares.remove(1);
    shares.begin(1);
    EXPECT_EQ(shares.share(0).percent, before);
    shares.remove(0);
  }
}

}  // namespace
}  // namespace itif::serving::test
