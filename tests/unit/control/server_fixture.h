// A server with a FakeAppliance, on sockets in a temporary directory.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "control/client.h"
#include "control/database.h"
#include "control/server.h"
#include "fake_appliance.h"
#include "temp_dir.h"

namespace itif::control {

constexpr uint64_t kTestTimeoutNs = 20'000'000'000;  // of a call; reached only through a defect

// Succeeds at once, or calls what a test sets.
struct FakeHandover final : Handover {
  std::function<Result<nlohmann::json>()> body = [] {
    return nlohmann::json{
        {"pid", 4711}, {"in_flight", 0}, {"drained", true}, {"binary", "/usr/local/bin/itifd"}};
  };
  std::atomic<bool> cancelled{false};
  HandOver asked;

  Result<nlohmann::json> run(const HandOver& operation, const Progress& progress) override {
    asked = operation;
    progress("starting", 0);
    return body();
  }
  void cancel() noexcept override { cancelled.store(true); }
};

class ServerFixture : public ::testing::Test {
 protected:
  ServerFixture() {
    options_.endpoint = "ipc://" + (dir_ / "control.sock");
    options_.events_endpoint = "ipc://" + (dir_ / "events.sock");
    options_.state_dir = dir_ / "state";
  }
  ~ServerFixture() override {
    if (appliance_) appliance_->open_gate();
  }

  // Locks the registry as another program; every commit of the server fails meanwhile.
  class HeldRegistry {
   public:
    explicit HeldRegistry(const std::string& state_dir)
        : database_(*Database::open(state_dir + "/registry.db")) {
      EXPECT_TRUE(database_.run("BEGIN IMMEDIATE"));
    }
    ~HeldRegistry() { EXPECT_TRUE(database_.run("ROLLBACK")); }

   private:
    Database database_;
  };

  Error open_error() {
    auto server = Server::open(options_, clock_);
    EXPECT_FALSE(server);
    return server ? Error{} : server.error();
  }
  // With `restored` false it returns while tenants are still being admitted.
  void start(bool restored = true) {
    auto server = Server::open(options_, clock_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    if (!appliance_) appliance_ = std::make_unique<FakeAppliance>();
    server_->attach(*appliance_, *appliance_);
    server_->use_handover(handover_);
    server_->start();
    if (restored) {
      ASSERT_TRUE(server_->wait_restored(kTestTimeoutNs));
    }
  }
  // Replaces server and appliance, as a restart of the process does.
  void restart(bool restored = true) {
    server_.reset();
    auto old = std::move(appliance_);
    appliance_ = std::make_unique<FakeAppliance>();
    if (old) appliance_->refused_models = old->refused_models;
    start(restored);
  }
  std::unique_ptr<Client> client() {
    auto client = Client::connect({.endpoint = options_.endpoint}, system_clock_);
    EXPECT_TRUE(client) << client.error().error.message;
    return client ? std::move(*client) : nullptr;
  }
  nlohmann::json ok(const std::string& op, const nlohmann::json& args = nlohmann::json::object()) {
    auto answer = client()->call(op, args, kTestTimeoutNs);
    EXPECT_TRUE(answer) << op << ": " << answer.error().error.message;
    return answer ? *answer : nlohmann::json();
  }
  Error refusal(const std::string& op, const nlohmann::json& args = nlohmann::json::object()) {
    auto answer = client()->call(op, args, kTestTimeoutNs);
    EXPECT_FALSE(answer) << op << " was not refused: " << args;
    if (answer) return {};
    EXPECT_EQ(answer.error().kind, CallError::Kind::kRefused) << answer.error().error.message;
    return answer.error().error;
  }
  nlohmann::json add(const std::string& name) {
    return ok("tenant.add", {{"name", name}, {"model_dir", "/models/" + name}});
  }

  TempDir dir_;
  VirtualClock clock_{1'700'000'000'000'000'000};
  SystemClock system_clock_;
  ServerOptions options_;
  FakeHandover handover_;
  std::unique_ptr<FakeAppliance> appliance_;
  std::unique_ptr<Server> server_;
};

}  // namespace itif::control
