// A tenant service over fake groups, and a reader that holds snapshots as a worker does.
#pragma once

#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_group.h"
#include "serving/tenant_service.h"
#include "start_eal.h"
#include "tenant/version_changes.h"

namespace itif::serving::test {

using namespace execution::test;

// The test reads in place of the only worker, which does not run.
inline constexpr size_t kReader = 0;
inline constexpr uint64_t kLong = 60'000'000'000;  // a timeout that does not pass

class TenantServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    start_test_eal();
    // Makes a new port for each test, because closing a port removes its device.
    static int serial = 0;
    const std::string name = "service" + std::to_string(serial++);
    rte_ring* ring = rte_ring_create(name.c_str(), 64, SOCKET_ID_ANY, 0);
    ASSERT_GE(rte_eth_from_rings(name.c_str(), &ring, 1, &ring, 1, 0), 0);
    config.ports = {{.device = "net_ring_" + name, .ipv4 = {"198.18.0.1/24"}, .ipv6 = {}}};
    config.data_plane.mbufs = 4096;
    config.data_plane.max_contexts = 64;
    wire::Key secret{};
    Random random(1);
    auto made = pipeline::Pipeline::create(config, clock, secret, random);
    ASSERT_TRUE(made) << made.error().message;
    pipeline = std::move(*made);
    remake();
  }
  void TearDown() override {
    if (pipeline) pipeline->shared().tenants.go_idle(kReader);
  }
  void remake() {
    service.reset();
    service = std::make_unique<TenantService>(
        *pipeline, table, clock, config, executor_cpus,
        [this](device::Device& of, const model::BackboneSpec& spec,
               const runtime::GroupOptions& options,
               const runtime::KindOptions&) -> Result<std::unique_ptr<runtime::Group>> {
          if (on_make) on_make();
          devices.push_back(&of);
          auto group = std::make_unique<FakeGroup>(spec, options);
          group->on_admit = on_admit;
          group->may_admit = may_admit;
          group->set_model_bytes(model_bytes);
          group->workspace_bytes_per_token = workspace_bytes_per_token;
          group->kv_bytes = kv_bytes;
          if (may_make && !may_make(options.max_tokens))
            return fail(Code::kResourceExhausted, "no memory for the workspace");
          groups.push_back(group.get());
          return group;
        });
  }
  static tenant::Record settings(uint32_t id) {
    tenant::Record s;
    s.id = id;
    s.name = "t" + std::to_string(id);
    s.model_dir = ITIF_GOLDENS_DIR "/plain-f32";
    s.key.epoch = 1;
    return s;
  }
  Status admit(const tenant::Record& s) { return service->admit(s, {}); }
  tenant::Record record(uint32_t id) const { return service->tenant(id)->record; }
  // Changes a tenant's record and settles it, as control does.
  Status change(const tenant::Record& next) {
    Status changed = service->update(next, TenantService::Loads::kMissing, {});
    if (changed) service->settle(next.id);
    return changed;
  }
  // Makes the tenant's directory the next version.
  Status install(uint32_t id) {
    tenant::Record next = record(id);
    tenant::install_version(next, next.model_dir, clock.unix_ns());
    return change(next);
  }
  Status install_canary(uint32_t id, uint32_t percent) {
    tenant::Record next = record(id);
    tenant::install_canary(next, next.model_dir, percent, clock.unix_ns());
    return change(next);
  }
  const tenant::Snapshot& snapshot() { return pipeline->shared().tenants.current(); }
  pipeline::GroupInbox* inbox(uint16_t number = 0) {
    return pipeline->shared().groups.find(number);
  }
  GroupInfo info(uint16_t number = 0) const {
    for (GroupInfo& group : service->groups())
      if (group.number == number) return std::move(group);
    ADD_FAILURE() << "there is no group " << number;
    return {};
  }
  // Makes the group's device fail with a batch, and waits until the group has noticed. `made`: the
  // group's index in `groups`.
  void break_device(uint16_t number = 0, size_t made = 0) {
    groups[made]->fail_next = true;
    const uint16_t id = 5;
    const request::Piece piece{reinterpret_cast<const std::byte*>(&id), 2};
    request::Request request;
    request.payload_kind = wire::PayloadKind::kTokensU16;
    request.payload_bytes = 2;
    request.pieces = std::span(&piece, 1);
    inbox(number)->push(&request);
    while (pipeline->workers()[0]->returns().pop(&returned_, 1) == 0) std::this_thread::yield();
    while (!info(number).device_failed) std::this_thread::yield();
  }

  SystemClock clock;
  config::Config config;
  std::vector<unsigned> executor_cpus = {0};
  FakeDevice& device = *new FakeDevice;  // owned by `table`
  DeviceTable table{std::unique_ptr<device::Device>(&device)};
  // In the order in which they were made, including groups that have ended.
  std::vector<FakeGroup*> groups;
  std::vector<device::Device*> devices;  // of each of `groups`
  std::function<void()> on_make;         // called before each group is made
  std::function<void(const model::Progress&)> on_admit;
  std::function<Status()> may_admit;
  std::function<bool(uint32_t max_tokens)> may_make;  // null: always
  // These describe groups that are made from now on.
  uint64_t workspace_bytes_per_token = 0, kv_bytes = 0;
  uint64_t model_bytes = 100;  // of each model in groups made from now on
  std::unique_ptr<pipeline::Pipeline> pipeline;
  std::unique_ptr<TenantService> service;

 private:
  pipeline::ReturnRing::Item returned_{};
};

}  // namespace itif::serving::test
