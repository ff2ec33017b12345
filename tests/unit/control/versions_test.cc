// Versions of a tenant's model over the control protocol, and what the registry keeps of them.
#include "control/registry.h"
#include "server_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

class VersionsTest : public ServerFixture {
 protected:
  // "3 canary, 2 active, 1 previous": newest first.
  std::string states() {
    std::string text;
    const json answer = ok("tenant.versions", {{"tenant", "a"}});
    for (const json& version : answer["versions"])
      text += (text.empty() ? "" : ", ") + version["version"].dump() + " " +
              version["state"].get<std::string>();
    return text;
  }
  json update(const std::string& model_dir) {
    return ok("tenant.update", {{"tenant", "a"}, {"model_dir", model_dir}})["tenant"];
  }
  json canary(const std::string& model_dir, int percent) {
    return ok("tenant.update",
              {{"tenant", "a"}, {"model_dir", model_dir}, {"canary_percent", percent}})["tenant"];
  }
};

TEST_F(VersionsTest, EveryModelIsANewVersion) {
  start();
  EXPECT_EQ(add("a")["tenant"]["version"], 1);
  EXPECT_EQ(update("/models/v2")["version"], 2);
  ok("tenant.update", {{"tenant", "a"}, {"weight", 5}});
  EXPECT_EQ(states(), "2 active, 1 previous");
  EXPECT_EQ(ok("tenant.update", {{"tenant", "a"}, {"reload", true}})["tenant"]["version"], 3);
  EXPECT_EQ(states(), "3 active, 2 previous, 1 retired");
  const json newest = ok("tenant.versions", {{"tenant", 1}})["versions"][0];
  EXPECT_EQ(newest["model_dir"], "/models/v2");
  EXPECT_EQ(newest["installed_unix_ns"], clock_.unix_ns());
  EXPECT_EQ(newest["percent"], 100);
  EXPECT_EQ(newest["loaded"], true);
  EXPECT_EQ(newest["requests"], 14) << "answered, errors, refused and in flight";
  EXPECT_EQ(newest["refused"], 4);
  EXPECT_EQ(newest["p99_ns"], 2'000'000);
  EXPECT_EQ(appliance_->settled.back(), 1u);
}

TEST_F(VersionsTest, AreKeptOverARestart) {
  start();
  add("a");
  update("/models/v2");
  canary("/models/v3", 7);
  const json before = ok("tenant.show", {{"tenant", "a"}})["tenant"];
  restart();
  EXPECT_EQ(states(), "3 canary, 2 active, 1 previous");
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}})["tenant"], before);
  EXPECT_EQ(before["canary_version"], 3);
  EXPECT_EQ(before["canary_percent"], 7);
}

// A tenant is loaded into the same group again.
TEST_F(VersionsTest, PlacementsAreKeptOverARestart) {
  start();
  add("a");
  update("/models/v2");
  server_.reset();
  const auto records = (*Registry::open(options_.state_dir))->load();
  ASSERT_EQ(records->size(), 1u);
  const tenant::Placement expected = {"bert-768", 30522, 512, 2};
  EXPECT_EQ(records->front().placement, expected);
  EXPECT_EQ(records->front().others[0].placement, expected);
}

// A registry of an older version is completed by the first start.
TEST_F(VersionsTest, PlacementsAreSavedAfterAStart) {
  start();
  add("a");
  server_.reset();
  {
    auto registry = *Registry::open(options_.state_dir);
    tenant::Record record = registry->load()->front();
    record.placement = {};
    ASSERT_TRUE(registry->update(record));
  }
  restart();
  server_.reset();
  EXPECT_EQ((*Registry::open(options_.state_dir))->load()->front().placement.group, "bert-768");
}

TEST_F(VersionsTest, CanaryIsPromoted) {
  start();
  add("a");
  EXPECT_EQ(refusal("tenant.promote", {{"tenant", "a"}}).code, Code::kNotFound);
  EXPECT_EQ(refusal("tenant.update", {{"tenant", "a"}, {"canary_percent", 5}}).code,
            Code::kInvalidArgument);
  EXPECT_EQ(canary("/models/v2", 5)["model_dir"], "/models/a");
  const json versions = ok("tenant.versions", {{"tenant", "a"}})["versions"];
  EXPECT_EQ(versions[0]["percent"], 5);
  EXPECT_EQ(versions[1]["percent"], 95);
  EXPECT_EQ(
      ok("tenant.update", {{"tenant", "a"}, {"canary_percent", 50}})["tenant"]["canary_percent"],
      50);
  const Error second = refusal("tenant.update", {{"tenant", "a"}, {"model_dir", "/models/v3"}});
  EXPECT_EQ(second.code, Code::kAlreadyExists);
  EXPECT_NE(second.message.find("version 2"), std::string::npos) << second.message;
  const json promoted = ok("tenant.promote", {{"tenant", "a"}})["tenant"];
  EXPECT_EQ(promoted["version"], 2);
  EXPECT_EQ(promoted["model_dir"], "/models/v2");
  EXPECT_FALSE(promoted.contains("canary_version"));
  EXPECT_EQ(states(), "2 active, 1 previous");
}

TEST_F(VersionsTest, RollbackTakesTheCanaryBackFirst) {
  start();
  add("a");
  update("/models/v2");
  canary("/models/v3", 5);
  EXPECT_EQ(ok("tenant.rollback", {{"tenant", "a"}})["tenant"]["version"], 2);
  EXPECT_EQ(states(), "3 rolled_back, 2 active, 1 previous");
  EXPECT_EQ(ok("tenant.rollback", {{"tenant", "a"}})["tenant"]["model_dir"], "/models/a");
  EXPECT_EQ(states(), "3 rolled_back, 2 rolled_back, 1 active");
  EXPECT_EQ(refusal("tenant.rollback", {{"tenant", "a"}}).code, Code::kNotFound);
  EXPECT_EQ(update("/models/v4")["version"], 4);
}

TEST_F(VersionsTest, FailedLoadChangesNothing) {
  start();
  add("a");
  update("/models/v2");
  appliance_->refused_models = {"/models/bad"};
  const json before = ok("tenant.show", {{"tenant", "a"}});
  refusal("tenant.update", {{"tenant", "a"}, {"model_dir", "/models/bad"}});
  refusal("tenant.update", {{"tenant", "a"}, {"model_dir", "/models/bad"}, {"canary_percent", 5}});
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}}), before);
  EXPECT_EQ(states(), "2 active, 1 previous");
  restart();
  EXPECT_EQ(states(), "2 active, 1 previous");
  EXPECT_EQ(update("/models/v3")["version"], 3) << "a refused model takes no number";
}

TEST_F(VersionsTest, ChangeThatCannotBeSavedIsUndone) {
  start();
  add("a");
  update("/models/v2");
  {
    HeldRegistry held(options_.state_dir);
    refusal("tenant.update", {{"tenant", "a"}, {"model_dir", "/models/v3"}});
    refusal("tenant.rollback", {{"tenant", "a"}});
  }
  EXPECT_EQ(appliance_->record(1).version, 2u);
  EXPECT_EQ(states(), "2 active, 1 previous");
}

// The appliance gives replaced files a new number when it loads them at a start.
TEST_F(VersionsTest, NewNumbersOfARestartAreSaved) {
  start();
  add("a");
  const auto digest = [&] {
    return ok("tenant.versions", {{"tenant", "a"}})["versions"][0].value("digest", "");
  };
  EXPECT_EQ(digest(), std::string(64, 'd'));
  server_.reset();
  appliance_ = std::make_unique<FakeAppliance>();
  appliance_->digest = 'e';
  start();
  EXPECT_EQ(states(), "2 active, 1 previous");
  EXPECT_EQ(digest(), std::string(64, 'e'));
  server_.reset();
  const auto records = (*Registry::open(options_.state_dir))->load();
  EXPECT_EQ(records->front().version, 2u);
  EXPECT_EQ(records->front().contents.digest, std::string(64, 'e'));
  EXPECT_EQ(records->front().others[0].contents.digest, std::string(64, 'd'));
}

TEST_F(VersionsTest, NewNumbersOfAMoveAreSaved) {
  start();
  add("a");
  appliance_->digest = 'e';
  ok("device.reset");
  EXPECT_EQ(states(), "2 active, 1 previous");
  server_.reset();
  const auto records = (*Registry::open(options_.state_dir))->load();
  EXPECT_EQ(records->front().version, 2u);
}

TEST_F(VersionsTest, FailedTenantTakesANewVersionButNoCanary) {
  start();
  add("a");
  update("/models/bad");
  appliance_->refused_models = {"/models/bad"};
  restart();
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}})["tenant"]["state"], "failed");
  EXPECT_EQ(refusal("tenant.update",
                    {{"tenant", "a"}, {"model_dir", "/models/v3"}, {"canary_percent", 5}})
                .code,
            Code::kUnavailable);
  EXPECT_EQ(ok("tenant.rollback", {{"tenant", "a"}})["tenant"]["state"], "serving");
  EXPECT_EQ(states(), "2 rolled_back, 1 active");
}

TEST_F(VersionsTest, RemovalIsReported) {
  start();
  add("a");
  const json removed = ok("tenant.remove", {{"tenant", "a"}, {"timeout_ns", 5}});
  EXPECT_EQ(removed, (json{{"id", 1},
                           {"name", "a"},
                           {"answered", 3},
                           {"refused", 1},
                           {"in_flight", 0},
                           {"waited_ns", 5}}));
  add("a");
  EXPECT_EQ(ok("tenant.remove", {{"tenant", "a"}})["waited_ns"], 10'000'000'000) << "the default";
}

}  // namespace
}  // namespace itif::control
