// A directory over fake groups, with a reader that holds on to snapshots as a worker does.
#pragma once

#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench_of_one.h"
#include "pipeline/directory.h"

namespace itif::pipeline::test {

inline constexpr size_t kReader = 0;  // the only worker does not run: the test reads in its place

class DirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    start_test_eal();
    // A port of its own for each test: closing takes the device away.
    static int serial = 0;
    const std::string name = "directory" + std::to_string(serial++);
    rte_ring* ring = rte_ring_create(name.c_str(), 64, SOCKET_ID_ANY, 0);
    ASSERT_GE(rte_eth_from_rings(name.c_str(), &ring, 1, &ring, 1, 0), 0);
    config.ports = {{.device = "net_ring_" + name, .ipv4 = {"198.18.0.1/24"}, .ipv6 = {}}};
    config.data_plane.mbufs = 4096;
    config.data_plane.max_contexts = 64;
    wire::Key secret{};
    Random random(1);
    auto made = Pipeline::create(config, clock, secret, random);
    ASSERT_TRUE(made) << made.error().message;
    pipeline = std::move(*made);
    remake();
  }
  void TearDown() override {
    if (pipeline) pipeline->shared().tenants.go_idle(kReader);
  }
  void remake() {
    directory.reset();
    directory = std::make_unique<Directory>(
        *pipeline, device, clock, config, std::vector<unsigned>{0},
        [this](device::Device& of, const model::BackboneSpec& spec,
               const runtime::GroupOptions& options) -> Result<std::unique_ptr<runtime::Group>> {
          devices.push_back(&of);
          auto group = std::make_unique<FakeGroup>(spec, options);
          group->on_admit = on_admit;
          groups.push_back(group.get());
          return group;
        });
  }
  static TenantSettings settings(uint32_t id) {
    TenantSettings s;
    s.id = id;
    s.name = "t" + std::to_string(id);
    s.model_dir = ITIF_GOLDENS_DIR "/plain-f32";
    s.key.epoch = 1;
    return s;
  }
  Result<TenantEntry> admit(const TenantSettings& s) { return directory->admit(s, {}); }
  const tenant::Snapshot& snapshot() { return pipeline->shared().tenants.current(); }
  GroupStage* stage(uint16_t number = 0) { return pipeline->shared().groups.find(number); }
  // The group's device fails at the next batch.
  void break_device(uint16_t number = 0) {
    groups[number]->fail_next = true;
    const uint16_t id = 5;
    const request::Piece piece{reinterpret_cast<const std::byte*>(&id), 2};
    request::Request request;
    request.payload_kind = wire::PayloadKind::kTokensU16;
    request.payload_bytes = 2;
    request.pieces = std::span(&piece, 1);
    stage(number)->push(&request);
    while (pipeline->workers()[0]->returns().pop(&returned_, 1) == 0) std::this_thread::yield();
    while (!stage(number)->device_failed()) std::this_thread::yield();
  }

  SystemClock clock;
  config::Config config;
  FakeDevice device;
  std::vector<FakeGroup*>
      groups;  // in the order in which they were made, those that are gone included
  std::vector<device::Device*> devices;  // theirs
  std::function<void(const model::Progress&)> on_admit;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Directory> directory;

 private:
  ReturnRing::Item returned_{};
};

}  // namespace itif::pipeline::test
