#include "control/server.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "control/database.h"
#include "server_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

class ServerTest : public ServerFixture {};

TEST_F(ServerTest, AddsListsAndShowsATenant) {
  start();
  const json added = ok("tenant.add", {{"name", "a"},
                                       {"model_dir", "/models/a"},
                                       {"group", "g"},
                                       {"slo_ns", 25'000'000},
                                       {"weight", 2},
                                       {"quota_rps", 500},
                                       {"auth", "full"}});
  EXPECT_EQ(added["tenant"]["id"], 1);
  EXPECT_EQ(added["tenant"]["state"], "serving");
  EXPECT_EQ(added["tenant"]["labels"], (json{"NEGATIVE", "POSITIVE"}));
  const std::string key = added["key"];
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key.find_first_not_of("0123456789abcdef"), std::string::npos);

  const tenant::Record record = appliance_->record(1);
  EXPECT_EQ(record.name, "a");
  EXPECT_EQ(record.group, "g");
  EXPECT_EQ(record.slo_ns, 25'000'000u);
  EXPECT_EQ(record.weight, 2u);
  EXPECT_EQ(record.quota_rps, 500u);
  EXPECT_EQ(record.auth, 2);
  EXPECT_EQ(record.key.epoch, 1);
  EXPECT_EQ(record.created_unix_ns, clock_.unix_ns());

  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 1u);
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}}), ok("tenant.show", {{"tenant", 1}}));
  // Later answers do not contain the key.
  EXPECT_EQ(ok("tenant.list").dump().find(key), std::string::npos);
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}}).dump().find(key), std::string::npos);
}

TEST_F(ServerTest, FindsTheBaseOfAnAdapter) {
  start();
  EXPECT_FALSE(add("base")["tenant"].contains("base_dir"));
  const auto add_adapter = [&](const char* name, const char* base) {
    return ok("tenant.add", {{"name", name}, {"model_dir", "/adapter"}, {"base", base}})["tenant"];
  };
  EXPECT_EQ(add_adapter("a", "/models/other")["base_dir"], "/models/other");
  EXPECT_EQ(add_adapter("b", "base")["base_dir"], "/models/base");
  EXPECT_EQ(add_adapter("c", "a")["base_dir"], "/models/other");
  EXPECT_EQ(appliance_->record(4).base_dir, "/models/other");
  EXPECT_EQ(
      refusal("tenant.add", {{"name", "d"}, {"model_dir", "/adapter"}, {"base", "ghost"}}).code,
      Code::kNotFound);
  // A later model of the tenant changes no base.
  ok("tenant.update", {{"tenant", "base"}, {"model_dir", "/models/new"}});
  EXPECT_EQ(ok("tenant.show", {{"tenant", "b"}})["tenant"]["base_dir"], "/models/base");
  ok("tenant.update", {{"tenant", "b"}, {"base", "base"}});
  EXPECT_EQ(appliance_->calls.back(), "reload b");
  EXPECT_EQ(appliance_->record(3).base_dir, "/models/new");
  EXPECT_EQ(appliance_->record(3).model_dir, "/adapter");
  ok("tenant.update", {{"tenant", "b"}, {"model_dir", "/whole"}});
  EXPECT_EQ(appliance_->record(3).base_dir, "");
}

TEST_F(ServerTest, KeysDiffer) {
  start();
  EXPECT_NE(add("a")["key"], add("b")["key"]);
}

TEST_F(ServerTest, RefusesATakenNameBeforeLoading) {
  start();
  add("a");
  const size_t calls = appliance_->calls.size();
  EXPECT_EQ(refusal("tenant.add", {{"name", "a"}, {"model_dir", "/m"}}).code, Code::kAlreadyExists);
  EXPECT_EQ(appliance_->calls.size(), calls);
}

TEST_F(ServerTest, FailedLoadLeavesNoTenant) {
  start();
  appliance_->refused_models = {"/models/bad"};
  const Error error = refusal("tenant.add", {{"name", "bad"}, {"model_dir", "/models/bad"}});
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_NE(error.message.find("tensor 'x'"), std::string::npos);
  EXPECT_TRUE(ok("tenant.list")["tenants"].empty());
  appliance_->fail_loads = true;
  EXPECT_EQ(refusal("tenant.add", {{"name", "b"}, {"model_dir", "/m"}}).code, Code::kInternal);
  EXPECT_TRUE(ok("tenant.list")["tenants"].empty());
  appliance_->fail_loads = false;
  // The ids of failed attempts are never reused.
  EXPECT_EQ(add("c")["tenant"]["id"], 3);
  restart();
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 1u);
}

TEST_F(ServerTest, ChangesSurviveARestart) {
  start();
  add("a");
  const std::string key = add("b")["key"];
  add("c");
  ok("tenant.update", {{"tenant", "b"}, {"name", "bee"}, {"weight", 7}});
  ok("tenant.pause", {{"tenant", "a"}});
  ok("tenant.remove", {{"tenant", "c"}});
  const json before = ok("tenant.list");
  const tenant::Record bee = appliance_->record(2);
  restart();
  EXPECT_EQ(ok("tenant.list"), before);
  EXPECT_EQ(appliance_->record(2).key.bytes, bee.key.bytes);
  EXPECT_EQ(appliance_->record(1).state, tenant::State::kPaused);
  EXPECT_EQ(add("d")["tenant"]["id"], 4) << "the id of a removed tenant was reused";
}

TEST_F(ServerTest, TenantThatCannotBeRestoredIsListedAndRepairable) {
  start();
  add("good");
  add("bad");
  appliance_->refused_models = {"/models/bad"};
  restart();
  const json shown = ok("tenant.show", {{"tenant", "bad"}})["tenant"];
  EXPECT_EQ(shown["state"], "failed");
  EXPECT_NE(shown["message"].get<std::string>().find("misshapen"), std::string::npos);
  const json health = ok("health");
  EXPECT_EQ(health["status"], "degraded");
  EXPECT_EQ(health["failed"][0]["name"], "bad");
  EXPECT_EQ(health["tenants"],
            (json{{"serving", 1}, {"failed", 1}, {"paused", 0}, {"loading", 0}}));
  EXPECT_EQ(ok("tenant.show", {{"tenant", "good"}})["tenant"]["state"], "serving");

  // Settings can be changed without loading; a reload must be requested.
  EXPECT_EQ(ok("tenant.update", {{"tenant", "bad"}, {"weight", 5}})["tenant"]["state"], "failed");
  EXPECT_EQ(refusal("tenant.resume", {{"tenant", "bad"}}).code, Code::kInvalidArgument);
  EXPECT_EQ(
      ok("tenant.update", {{"tenant", "bad"}, {"model_dir", "/models/fixed"}})["tenant"]["state"],
      "serving");
  EXPECT_EQ(ok("health")["status"], "ok");
  EXPECT_EQ(appliance_->record(2).weight, 5u);
}

TEST_F(ServerTest, AFailedTenantCanBeRemoved) {
  start();
  add("bad");
  appliance_->refused_models = {"/models/bad"};
  restart();
  EXPECT_EQ(ok("tenant.remove", {{"tenant", "bad"}})["id"], 1);
  EXPECT_TRUE(ok("tenant.list")["tenants"].empty());
}

TEST_F(ServerTest, ApplianceKnowsTenantsThatAreNotLoaded) {
  start();
  add("good");
  add("bad");
  appliance_->refused_models = {"/models/bad"};
  server_.reset();
  appliance_ = std::make_unique<FakeAppliance>();
  appliance_->refused_models = {"/models/bad"};
  appliance_->close_gate();
  start(false);
  EXPECT_EQ(appliance_->expected().size(), 2u) << "known before the server answers clients";
  appliance_->open_gate();
  EXPECT_TRUE(server_->wait_restored(kTestTimeoutNs));
  ASSERT_EQ(appliance_->expected().size(), 1u);
  EXPECT_EQ(appliance_->expected().at(2).name, "bad");

  // Changes to a tenant that is not loaded reach the appliance, which checks requests with them.
  ok("tenant.rotate_key", {{"tenant", "bad"}});
  EXPECT_EQ(appliance_->expected().at(2).key.epoch, 2);
  {
    HeldRegistry held(options_.state_dir);
    refusal("tenant.rotate_key", {{"tenant", "bad"}});
    EXPECT_EQ(appliance_->expected().at(2).key.epoch, 2);
    refusal("tenant.update", {{"tenant", "bad"}, {"model_dir", "/models/fixed"}});
    EXPECT_TRUE(appliance_->expected().contains(2)) << "a failed change must be undone";
    EXPECT_FALSE(appliance_->has(2));
  }
  ok("tenant.remove", {{"tenant", "bad"}});
  EXPECT_TRUE(appliance_->expected().empty());
}

TEST_F(ServerTest, AnswersWhileTenantsAreRestored) {
  start();
  add("a");
  server_.reset();
  appliance_ = std::make_unique<FakeAppliance>();
  appliance_->close_gate();
  start(false);
  appliance_->wait_until_inside();
  EXPECT_EQ(ok("health")["status"], "restoring");
  EXPECT_EQ(ok("health")["running"], "restore");
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}})["tenant"]["state"], "loading");
  appliance_->open_gate();
  EXPECT_TRUE(server_->wait_restored(kTestTimeoutNs));
  EXPECT_EQ(ok("health")["status"], "ok");
}

TEST_F(ServerTest, SlowAdmissionDelaysNoOtherCalls) {
  start();
  appliance_->close_gate();
  auto slow = std::async(std::launch::async, [this] { return add("slow"); });
  appliance_->wait_until_inside();
  EXPECT_EQ(ok("health")["running"], "tenant.add");
  EXPECT_EQ(ok("stats")["total"]["received"], 7);
  EXPECT_EQ(ok("tenant.show", {{"tenant", "slow"}})["tenant"]["state"], "loading");
  appliance_->open_gate();
  EXPECT_EQ(slow.get()["tenant"]["state"], "serving");
}

TEST_F(ServerTest, AnOperationThatWaitsIsToldForWhich) {
  start();
  add("a");
  appliance_->close_gate();
  auto slow = std::async(std::launch::async, [this] { return add("slow"); });
  appliance_->wait_until_inside();
  std::vector<std::pair<std::string, double>> steps;
  auto answer = client()->call("group.update", {{"group", "bert-768"}, {"share_percent", 20}},
                               kTestTimeoutNs, [&](const std::string& stage, double fraction) {
                                 steps.emplace_back(stage, fraction);
                                 appliance_->open_gate();
                               });
  ASSERT_TRUE(answer) << answer.error().error.message;
  EXPECT_EQ(steps, (std::vector<std::pair<std::string, double>>{{"waiting for tenant.add", 0}}));
  slow.get();
  // An answered operation no longer runs.
  for (int i = 0; i < 50; ++i) {
    steps.clear();
    ASSERT_TRUE(client()->call(
        "tenant.pause", {{"tenant", "a"}}, kTestTimeoutNs,
        [&](const std::string& stage, double fraction) { steps.emplace_back(stage, fraction); }));
    for (const auto& [stage, fraction] : steps) EXPECT_NE(stage, "waiting for tenant.pause");
  }
}

TEST_F(ServerTest, ProgressArrivesInOrderAndRateLimited) {
  start();
  std::vector<std::pair<std::string, double>> steps;
  auto answer = client()->call(
      "tenant.add", {{"name", "a"}, {"model_dir", "/m"}}, kTestTimeoutNs,
      [&](const std::string& stage, double fraction) { steps.emplace_back(stage, fraction); });
  ASSERT_TRUE(answer);
  ASSERT_GT(steps.size(), 10u);
  EXPECT_LT(steps.size(), 150u);  // the loader reported 1,002
  EXPECT_EQ(steps[0], (std::pair<std::string, double>("reading", 0.0)));
  EXPECT_EQ(steps.back(), (std::pair<std::string, double>("packing", 1.0)));
  for (size_t i = 2; i < steps.size(); ++i) EXPECT_GT(steps[i].second, steps[i - 1].second);
}

TEST_F(ServerTest, OperationsBeyondMaxWaitingAreRefused) {
  options_.max_waiting = 2;
  start();
  appliance_->close_gate();
  auto first = std::async(std::launch::async, [this] { return add("first"); });
  appliance_->wait_until_inside();
  std::vector<std::future<json>> waiting;
  for (const char* name : {"w1", "w2"})
    waiting.push_back(std::async(std::launch::async, [this, name] { return add(name); }));
  while (ok("health")["waiting"] != 2) std::this_thread::yield();
  const Error error = refusal("tenant.pause", {{"tenant", "first"}});
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_NE(error.message.find("tenant.add"), std::string::npos) << error.message;
  appliance_->open_gate();
  first.get();
  for (auto& one : waiting) EXPECT_EQ(one.get()["tenant"]["state"], "serving");
}

TEST_F(ServerTest, UpdateReloadsOnlyOnRequest) {
  start();
  add("a");
  ok("tenant.update", {{"tenant", "a"}, {"slo_ns", 5}, {"quota_rps", 6}, {"auth", "none"}});
  EXPECT_EQ(appliance_->calls.back(), "update a");
  const tenant::Record record = appliance_->record(1);
  EXPECT_EQ(record.slo_ns, 5u);
  EXPECT_EQ(record.quota_rps, 6u);
  EXPECT_EQ(record.auth, 0);
  EXPECT_EQ(record.weight, 1u);
  ok("tenant.update", {{"tenant", "a"}, {"reload", true}});
  EXPECT_EQ(appliance_->calls.back(), "reload a");
  ok("tenant.update", {{"tenant", "a"}, {"model_dir", "/models/new"}});
  EXPECT_EQ(appliance_->calls.back(), "reload a");
  EXPECT_EQ(appliance_->record(1).model_dir, "/models/new");
}

TEST_F(ServerTest, FailedReloadKeepsTheOldSettings) {
  start();
  add("a");
  const json before = ok("tenant.show", {{"tenant", "a"}});
  appliance_->refused_models = {"/models/bad"};
  refusal("tenant.update", {{"tenant", "a"}, {"model_dir", "/models/bad"}});
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}}), before);
}

TEST_F(ServerTest, RenamingToATakenNameIsRefused) {
  start();
  add("a");
  add("b");
  EXPECT_EQ(refusal("tenant.update", {{"tenant", "a"}, {"name", "b"}}).code, Code::kAlreadyExists);
  // Renaming to the present name is allowed.
  EXPECT_EQ(ok("tenant.update", {{"tenant", "a"}, {"name", "a"}})["tenant"]["name"], "a");
}

TEST_F(ServerTest, PausesAndResumes) {
  start();
  add("a");
  EXPECT_EQ(ok("tenant.pause", {{"tenant", "a"}})["tenant"]["state"], "paused");
  EXPECT_EQ(appliance_->record(1).state, tenant::State::kPaused);
  EXPECT_EQ(ok("tenant.resume", {{"tenant", "a"}})["tenant"]["state"], "serving");
  EXPECT_EQ(appliance_->record(1).state, tenant::State::kServing);
}

TEST_F(ServerTest, RotationKeepsThePreviousKeyUntilDropped) {
  start();
  const std::string first = add("a")["key"];
  const tenant::Record before = appliance_->record(1);
  const json rotated = ok("tenant.rotate_key", {{"tenant", "a"}});
  EXPECT_NE(rotated["key"], first);
  EXPECT_EQ(rotated["tenant"]["key_epoch"], 2);
  EXPECT_EQ(rotated["tenant"]["previous_key_epoch"], 1);
  EXPECT_TRUE(appliance_->record(1).has_previous_key);
  EXPECT_EQ(appliance_->record(1).previous_key.bytes, before.key.bytes);
  restart();
  EXPECT_TRUE(appliance_->record(1).has_previous_key);
  EXPECT_EQ(appliance_->record(1).previous_key.epoch, 1);
  const json dropped = ok("tenant.rotate_key", {{"tenant", "a"}, {"drop_previous", true}});
  EXPECT_FALSE(dropped.contains("key"));
  EXPECT_EQ(dropped["tenant"]["key_epoch"], 2);
  EXPECT_FALSE(dropped["tenant"].contains("previous_key_epoch"));
  EXPECT_FALSE(appliance_->record(1).has_previous_key);
  EXPECT_EQ(refusal("tenant.rotate_key", {{"tenant", "a"}, {"drop_previous", true}}).code,
            Code::kNotFound);
}

TEST_F(ServerTest, FailedCommitRevertsTheAppliance) {
  start();
  add("a");
  const tenant::Record before = appliance_->record(1);
  {
    HeldRegistry held(options_.state_dir);
    EXPECT_EQ(refusal("tenant.update", {{"tenant", "a"}, {"weight", 9}}).code, Code::kUnavailable);
    EXPECT_EQ(refusal("tenant.remove", {{"tenant", "a"}}).code, Code::kUnavailable);
  }
  EXPECT_EQ(appliance_->record(1).weight, before.weight);
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}})["tenant"]["weight"], 1);

  // The commit of an admission fails, because another program locks the file while the model loads.
  std::unique_ptr<HeldRegistry> held;
  appliance_->before_return = [&] { held = std::make_unique<HeldRegistry>(options_.state_dir); };
  EXPECT_EQ(refusal("tenant.add", {{"name", "b"}, {"model_dir", "/m"}}).code, Code::kUnavailable);
  held.reset();
  appliance_->before_return = nullptr;
  EXPECT_EQ(appliance_->calls.back(), "remove 2");
  EXPECT_EQ(appliance_->size(), 1u);
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 1u);
  add("b");
}

TEST_F(ServerTest, FailedCommitLeavesAFailedTenantAsItWas) {
  appliance_ = std::make_unique<FakeAppliance>();
  start();
  add("bad");
  appliance_->refused_models = {"/models/bad"};
  restart();
  const json before = ok("tenant.show", {{"tenant", "bad"}});
  ASSERT_EQ(before["tenant"]["state"], "failed");
  std::unique_ptr<HeldRegistry> held;
  appliance_->before_return = [&] { held = std::make_unique<HeldRegistry>(options_.state_dir); };
  EXPECT_EQ(refusal("tenant.update", {{"tenant", "bad"}, {"model_dir", "/models/fixed"}}).code,
            Code::kUnavailable);
  held.reset();
  EXPECT_EQ(ok("tenant.show", {{"tenant", "bad"}}), before);
}

TEST_F(ServerTest, ShowsATenantAsTheApplianceHasItNow) {
  start();
  add("a");
  add("b");
  appliance_->change(1, [](tenant::Info& info) { info.model->weight_bytes = 77; });
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}})["tenant"]["weight_bytes"], 77);
  EXPECT_EQ(ok("tenant.list")["tenants"][0]["weight_bytes"], 77);
  // It could not leave a failed device, whose group still holds its model.
  appliance_->change(1, [](tenant::Info& info) {
    info.condition = tenant::Condition::kFailed;
    info.failure = "cannot move to host: no memory";
  });
  const json shown = ok("tenant.show", {{"tenant", "a"}})["tenant"];
  EXPECT_EQ(shown["state"], "failed");
  EXPECT_EQ(shown["message"], "cannot move to host: no memory");
  EXPECT_EQ(ok("health")["failed"][0]["name"], "a");
  EXPECT_EQ(ok("tenant.resume", {{"tenant", "a"}})["tenant"]["state"], "serving");
  EXPECT_EQ(appliance_->calls.back(), "reload a");
}

TEST_F(ServerTest, FailedRemovalKeepsTheTenant) {
  start();
  add("a");
  appliance_->fail_removals = true;
  refusal("tenant.remove", {{"tenant", "a"}});
  EXPECT_EQ(ok("tenant.show", {{"tenant", "a"}})["tenant"]["state"], "serving");
  restart();
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 1u);
  ok("tenant.remove", {{"tenant", 1}});
  EXPECT_EQ(appliance_->size(), 0u);
}

TEST_F(ServerTest, UnknownTenantsAreNotFound) {
  start();
  for (const char* op :
       {"tenant.show", "tenant.pause", "tenant.resume", "tenant.remove", "tenant.rotate_key"}) {
    EXPECT_EQ(refusal(op, {{"tenant", "ghost"}}).code, Code::kNotFound);
    EXPECT_EQ(refusal(op, {{"tenant", 99}}).code, Code::kNotFound);
  }
  EXPECT_EQ(refusal("tenant.update", {{"tenant", "ghost"}, {"weight", 2}}).code, Code::kNotFound);
}

TEST_F(ServerTest, DrainsAndReturns) {
  start();
  EXPECT_EQ(ok("drain", {{"timeout_ns", 5}}), (json{{"in_flight", 0}, {"drained", true}}));
  EXPECT_EQ(appliance_->calls.back(), "drain 5");
  EXPECT_EQ(ok("health")["status"], "draining");
  EXPECT_EQ(ok("undrain"), json::object());
  EXPECT_EQ(ok("health")["status"], "ok");
  appliance_->in_flight_after_drain = 3;
  EXPECT_EQ(ok("drain"), (json{{"in_flight", 3}, {"drained", false}}));
  EXPECT_EQ(appliance_->calls.back(), "drain 10000000000");
  EXPECT_EQ(*server_->drain(7), 3u);
  EXPECT_EQ(appliance_->calls.back(), "drain 7");
  server_->stop();
  EXPECT_EQ(server_->drain(7).error().code, Code::kUnavailable);
}

TEST_F(ServerTest, ShutdownEndsTheRestoreImmediately) {
  start();
  add("a");
  add("b");
  server_.reset();
  appliance_ = std::make_unique<FakeAppliance>();
  appliance_->close_gate();
  start(false);
  appliance_->wait_until_inside();
  auto waiting = std::async(std::launch::async, [this] { return refusal("undrain"); });
  while (ok("health")["waiting"] != 1) std::this_thread::yield();
  EXPECT_EQ(*server_->drain(7), 0u);
  EXPECT_EQ(waiting.get().code, Code::kUnavailable);
  EXPECT_EQ(refusal("undrain").code, Code::kUnavailable)
      << "no operation may start during shutdown";
  server_->stop();
  EXPECT_EQ(appliance_->size(), 0u);
  EXPECT_EQ(appliance_->calls, (std::vector<std::string>{"admit a", "drain 7"}));
}

TEST_F(ServerTest, ShutdownEndsTheRunningOperation) {
  start();
  appliance_->close_gate();
  auto running = std::async(std::launch::async, [this] {
    return refusal("tenant.add", {{"name", "a"}, {"model_dir", "/m"}});
  });
  appliance_->wait_until_inside();
  EXPECT_EQ(*server_->drain(7), 0u);
  EXPECT_EQ(running.get().code, Code::kUnavailable);
  server_->stop();
  restart();
  EXPECT_TRUE(ok("tenant.list")["tenants"].empty());
}

TEST_F(ServerTest, ForwardsTheAppliancesDocuments) {
  start();
  EXPECT_EQ(ok("group.list"), appliance_->groups());
  EXPECT_EQ(ok("stats"), appliance_->stats());
  EXPECT_EQ(ok("drops"), appliance_->drops());
  EXPECT_EQ(ok("device"), appliance_->device());
  EXPECT_EQ(ok("data_address"), appliance_->data_address());
  EXPECT_EQ(ok("health")["appliance"], appliance_->health());
  appliance_->throw_in_device = true;
  EXPECT_EQ(refusal("device").code, Code::kInternal);
  ok("health");
}

TEST_F(ServerTest, SendsEventsAndStats) {
  start();
  auto stream = EventStream::subscribe(options_.events_endpoint, true);
  ASSERT_TRUE(stream) << stream.error().error.message;
  // Stats arrive at once after the subscription, and then at intervals of the clock.
  std::optional<json> message;
  while (!message) message = (*stream)->next(20'000);
  EXPECT_EQ((*message)["stats"], appliance_->stats());
  EXPECT_FALSE((*stream)->next(200)) << "the clock has not advanced";
  clock_.advance_ns(options_.stats_period_ns);
  message = (*stream)->next(20'000);
  ASSERT_TRUE(message && message->contains("stats"));

  const std::string key = add("a")["key"];
  message = (*stream)->next(20'000);
  ASSERT_TRUE(message);
  EXPECT_EQ(*message, (json{{"v", 1},
                            {"event", "tenant.added"},
                            {"unix_ns", clock_.unix_ns()},
                            {"id", 1},
                            {"name", "a"},
                            {"state", "serving"}}));
  server_->publish_event("device.failed", {{"reason", "test"}});
  message = (*stream)->next(20'000);
  ASSERT_TRUE(message);
  EXPECT_EQ((*message)["event"], "device.failed");
}

TEST_F(ServerTest, StopRefusesWaitingAndFinishesRunningOperations) {
  start();
  appliance_->close_gate();
  auto running = std::async(std::launch::async, [this] { return add("running"); });
  appliance_->wait_until_inside();
  auto waiting = std::async(std::launch::async, [this] {
    return refusal("tenant.add", {{"name", "waiting"}, {"model_dir", "/m"}});
  });
  while (ok("health")["waiting"] != 1) std::this_thread::yield();
  auto stopper = std::async(std::launch::async, [this] { server_->stop(); });
  // stop() refuses it. Only then does the running operation continue.
  EXPECT_EQ(waiting.get().code, Code::kUnavailable);
  appliance_->open_gate();
  EXPECT_EQ(running.get()["tenant"]["name"], "running");
  stopper.get();
  restart();
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 1u);
}

TEST_F(ServerTest, AnswerIsReadAfterTheServerHasGone) {
  start();
  appliance_->close_gate();
  std::promise<void> gone;
  auto wait = gone.get_future();
  auto answer = std::async(std::launch::async, [&, client = client()] {
    return client->call("tenant.add", {{"name", "a"}, {"model_dir", "/m"}}, kTestTimeoutNs,
                        [&](const std::string&, double) {
                          if (wait.valid()) wait.get();
                        });
  });
  appliance_->wait_until_inside();
  appliance_->open_gate();
  server_->stop();
  // Time for the answer and the end of the connection to reach the client's I/O thread.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  gone.set_value();
  const auto answered = answer.get();
  EXPECT_TRUE(answered) << answered.error().error.message;
}

}  // namespace
}  // namespace itif::control
