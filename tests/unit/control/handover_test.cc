// A server passes its registry and endpoints on to another one, or takes them back.
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "server_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

class HandoverTest : public ServerFixture {
 protected:
  // Makes a second server beside the first and restores its tenants.
  void start_beside() {
    auto server = Server::open_beside(options_, clock_);
    ASSERT_TRUE(server) << server.error().message;
    next_server_ = std::move(*server);
    next_server_->attach(next_appliance_, next_appliance_);
    next_server_->start();
    ASSERT_TRUE(next_server_->wait_restored(kTestTimeoutNs));
  }

  FakeAppliance next_appliance_;
  std::unique_ptr<Server> next_server_;
};

TEST_F(HandoverTest, ArgumentsReachTheHandover) {
  start();
  ok("handover", {{"binary", "/bin/new"}, {"config", "/etc/new.conf"}, {"timeout_ns", 5}});
  EXPECT_EQ(handover_.asked.binary, "/bin/new");
  EXPECT_EQ(handover_.asked.config, "/etc/new.conf");
  EXPECT_EQ(handover_.asked.timeout_ns, 5u);
}

TEST_F(HandoverTest, RefusesBadArguments) {
  start();
  EXPECT_EQ(refusal("handover", {{"binary", "relative"}}).code, Code::kInvalidArgument);
  EXPECT_EQ(refusal("handover", {{"config", 7}}).code, Code::kInvalidArgument);
  EXPECT_EQ(refusal("handover", {{"timeout_ns", 0}}).code, Code::kInvalidArgument);
  EXPECT_EQ(refusal("handover", {{"force", true}}).code, Code::kInvalidArgument);
}

TEST_F(HandoverTest, NextServerHasTheTenantsAndTheEndpoints) {
  options_.tcp_endpoint.clear();
  start();
  add("a");
  add("b");
  auto connected = client();
  handover_.body = [&]() -> Result<json> {
    start_beside();
    ITIF_TRY(server_->release());
    ITIF_TRY(next_server_->take_over());
    return json{{"pid", 1}, {"in_flight", 0}, {"drained", true}, {"binary", "/usr/bin/itifd"}};
  };
  const auto answer = connected->call("handover", json::object(), kTestTimeoutNs);
  ASSERT_TRUE(answer) << "on the old connection: " << answer.error().error.message;
  const auto refused = connected->call("tenant.pause", {{"tenant", "a"}}, kTestTimeoutNs);
  ASSERT_FALSE(refused) << "the old server must not change tenants any more";
  EXPECT_EQ(refused.error().error.code, Code::kUnavailable);

  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 2u);
  const json added = add("c");
  EXPECT_EQ(added["tenant"]["id"], 3);
  EXPECT_TRUE(next_appliance_.tenant(std::string("c")));
  EXPECT_FALSE(appliance_->tenant(std::string("c")));
  server_.reset();  // must not remove the next server's socket files
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 3u);

  next_server_.reset();
  restart();
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 3u) << "the registry itself was changed";
}

TEST_F(HandoverTest, CopyDoesNotChangeTheRegistry) {
  start();
  add("a");
  start_beside();
  EXPECT_EQ(add("b")["tenant"]["id"], 2) << "the copy holds no lock";
  EXPECT_EQ(next_appliance_.tenants().size(), 1u);
}

TEST_F(HandoverTest, TakesBackAfterAFailure) {
  start();
  add("a");
  handover_.body = [&]() -> Result<json> {
    ITIF_TRY(server_->release());
    ITIF_TRY(server_->take_back());
    return fail(Code::kUnavailable, "the new process ended");
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(refusal("handover").message, "the new process ended");
    add("b" + std::to_string(i));
  }
  restart();
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 4u);
}

TEST_F(HandoverTest, ChangesMeanwhileAreRefused) {
  start();
  add("a");
  std::promise<void> started, go_on;
  handover_.body = [&]() -> Result<json> {
    started.set_value();
    go_on.get_future().wait();
    return fail(Code::kUnavailable, "the new process ended");
  };
  auto running = std::async(std::launch::async, [this] { return refusal("handover"); });
  started.get_future().wait();
  EXPECT_EQ(refusal("tenant.pause", {{"tenant", "a"}}).code, Code::kUnavailable);
  EXPECT_EQ(refusal("handover").code, Code::kUnavailable);
  EXPECT_EQ(ok("health")["running"], "handover");
  go_on.set_value();
  running.get();
  ok("tenant.pause", {{"tenant", "a"}});
}

TEST_F(HandoverTest, ADrainingApplianceIsNotHandedOver) {
  start();
  ok("drain", {{"timeout_ns", 1}});
  EXPECT_EQ(refusal("handover").code, Code::kUnavailable);
  ok("undrain");
  ok("handover");
}

TEST_F(HandoverTest, AShutdownCancelsIt) {
  start();
  handover_.body = [&]() -> Result<json> {
    while (!handover_.cancelled.load()) std::this_thread::yield();
    return fail(Code::kUnavailable, "cancelled");
  };
  auto running = std::async(std::launch::async, [this] { return refusal("handover"); });
  while (ok("health").value("running", "") != "handover") std::this_thread::yield();
  EXPECT_TRUE(server_->drain(1));
  EXPECT_EQ(running.get().message, "cancelled");
}

}  // namespace
}  // namespace itif::control
