// group.update: a group's planner, scheduler, share, CPUs and weight. A refused change changes
// nothing.
#include "control/database.h"
#include "server_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

class GroupUpdateTest : public ServerFixture {
 protected:
  GroupSettings settings() const { return appliance_->groups_settings.at("bert-768"); }
};

TEST_F(GroupUpdateTest, KeepsEachSettingOverRestarts) {
  start();
  const json first = ok("group.update", {{"group", "bert-768"}, {"scheduler", "das:eta=0.4,fair"}});
  EXPECT_EQ(first, (json{{"group", "bert-768"}, {"scheduler", "das:eta=0.4,fair"}}));
  const json second = ok("group.update", {{"group", "bert-768"}, {"planner", "itif"}});
  EXPECT_EQ(second, (json{{"group", "bert-768"}, {"planner", "itif"}}));
  EXPECT_EQ(settings(), (GroupSettings{"itif", "das:eta=0.4,fair"}));
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"itif", "das:eta=0.4,fair"}));
  const json both =
      ok("group.update", {{"group", "bert-768"}, {"planner", "joint"}, {"scheduler", "edf"}});
  EXPECT_EQ(both, (json{{"group", "bert-768"}, {"planner", "joint"}, {"scheduler", "edf"}}));
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"joint", "edf"}));
  const json share = ok("group.update", {{"group", "bert-768"}, {"share_percent", 30}});
  EXPECT_EQ(share, (json{{"group", "bert-768"}, {"share_percent", 30}}));
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"joint", "edf", 30}));
  ok("group.update", {{"group", "bert-768"}, {"planner", "itif"}});
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"itif", "edf", 30}));
  const json cpus = ok("group.update", {{"group", "bert-768"}, {"cpus", {5, 0, 1, 2}}});
  EXPECT_EQ(cpus, (json{{"group", "bert-768"}, {"cpus", {0, 1, 2, 5}}}));
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"itif", "edf", 30, {{0, 1, 2, 5}}}));
  ok("group.update", {{"group", "bert-768"}, {"cpus", json::array()}});
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"itif", "edf", 30}));
  const json weight = ok("group.update", {{"group", "bert-768"}, {"weight", 1000}});
  EXPECT_EQ(weight, (json{{"group", "bert-768"}, {"weight", 1000}}));
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"itif", "edf", 30, std::nullopt, 1000}));
  ok("group.update", {{"group", "bert-768"}, {"planner", "joint"}});
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"joint", "edf", 30, std::nullopt, 1000}));
  ok("group.update", {{"group", "bert-768"}, {"weight", 1}});
  restart();
  EXPECT_EQ(settings(), (GroupSettings{"joint", "edf", 30}));
}

TEST_F(GroupUpdateTest, ARefusedWeightTakesTheOtherSettingsBack) {
  start();
  ok("group.update", {{"group", "bert-768"}, {"share_percent", 10}, {"weight", 3}});
  const json args = {{"group", "bert-768"}, {"share_percent", 20}, {"weight", 999}};
  EXPECT_EQ(refusal("group.update", args).message, "no weight 999");
  EXPECT_EQ(settings(), (GroupSettings{"", "", 10, std::nullopt, 3}));
}

TEST_F(GroupUpdateTest, RefusedCpusTakeTheOtherSettingsBack) {
  start();
  ok("group.update", {{"group", "bert-768"}, {"share_percent", 10}});
  const json args = {{"group", "bert-768"}, {"share_percent", 20}, {"cpus", {1000}}};
  EXPECT_EQ(refusal("group.update", args).message, "no CPU 1000");
  EXPECT_EQ(settings(), (GroupSettings{"", "", 10}));
}

TEST_F(GroupUpdateTest, ARefusedSchedulerTakesThePlannerBack) {
  start();
  const GroupSettings before{"naive", "sjf"};
  ok("group.update", {{"group", "bert-768"}, {"planner", "naive"}, {"scheduler", "sjf"}});
  const Error error =
      refusal("group.update", {{"group", "bert-768"}, {"planner", "itif"}, {"scheduler", "magic"}});
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_NE(error.message.find("'magic' is not one of"), std::string::npos);
  EXPECT_EQ(settings(), before);
  restart();
  EXPECT_EQ(settings(), before);
}

TEST_F(GroupUpdateTest, AFailedCommitTakesAllBack) {
  start();
  ok("group.update",
     {{"group", "bert-768"}, {"planner", "naive"}, {"scheduler", "sjf"}, {"share_percent", 10}});
  ok("group.update", {{"group", "bert-768"}, {"weight", 7}});
  Database other = *Database::open(options_.state_dir + "/registry.db");
  ASSERT_TRUE(other.run("BEGIN IMMEDIATE"));  // every commit of the server fails
  refusal("group.update", {{"group", "bert-768"},
                           {"planner", "itif"},
                           {"scheduler", "edf"},
                           {"share_percent", 20},
                           {"weight", 8}});
  EXPECT_EQ(settings(), (GroupSettings{"naive", "sjf", 10, std::nullopt, 7}));
  ASSERT_TRUE(other.run("ROLLBACK"));
}

TEST_F(GroupUpdateTest, RefusesWrongArguments) {
  start();
  const auto message = [&](const json& args) { return refusal("group.update", args).message; };
  EXPECT_EQ(message({{"group", "bert-768"}}),
            "group.update: nothing to change: give planner, scheduler, share_percent, cpus or "
            "weight");
  for (const json& wrong : {json(101), json(-1), json(2.5), json("30")})
    EXPECT_NE(message({{"group", "bert-768"}, {"share_percent", wrong}}).find("'share_percent'"),
              std::string::npos)
        << wrong;
  for (const json& wrong : {json(0), json(1001), json(-1), json(2.5), json("3"), json()})
    EXPECT_NE(message({{"group", "bert-768"}, {"weight", wrong}}).find("'weight' must be"),
              std::string::npos)
        << wrong;
  for (const json& wrong : {json("0"), json(1), json{-1}, json{1.5}, json{1024}, json{3, 3}})
    EXPECT_EQ(message({{"group", "bert-768"}, {"cpus", wrong}}),
              "group.update: 'cpus' must be a list of different CPUs from 0 to 1023")
        << wrong;
  for (const std::string& wrong : {std::string(), std::string("a b"), std::string(256, 'a')})
    EXPECT_NE(message({{"group", "bert-768"}, {"scheduler", wrong}}).find("'scheduler' must be"),
              std::string::npos);
  EXPECT_EQ(refusal("group.update", {{"group", "none"}, {"scheduler", "edf"}}).code,
            Code::kNotFound);
  EXPECT_EQ(refusal("group.update", {{"group", "none"}, {"share_percent", 5}}).code,
            Code::kNotFound);
  EXPECT_EQ(refusal("group.update", {{"group", "none"}, {"weight", 5}}).code, Code::kNotFound);
}

}  // namespace
}  // namespace itif::control
