// Workers that share the queue of a port: two ports of rings, each with one queue and three
// workers, and a group with a fake model.
#pragma once

#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <cstring>
#include <map>

#include "execution/group_stage.h"
#include "fake_group.h"
#include "net/mempool.h"
#include "pipeline/figures.h"
#include "pipeline/worker.h"
#include "request_frame.h"
#include "start_eal.h"

namespace itif::pipeline::test {

using execution::test::FakeDevice;
using execution::test::FakeGroup;
using Bytes = std::vector<std::byte>;

class SpreadingTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kTenant = 7, kSession = 77;
  static constexpr wire::Key kKey = {std::byte{1}, std::byte{2}, std::byte{3}};
  static constexpr size_t kPorts = 2, kWorkersPerPort = 3;

  struct RingPair {
    rte_ring* to_port;
    rte_ring* from_port;
    std::unique_ptr<net::Port> port;
  };
  static void SetUpTestSuite() {
    execution::test::start_test_eal();
    auto pool = net::create_mempool({"spread", 8191, 2048, -1});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = pool->release();  // lives as long as the process
    for (size_t i = 0; i < kPorts; ++i) {
      const std::string name = "spread" + std::to_string(i);
      RingPair& pair = ports_[i];
      pair.to_port = rte_ring_create((name + "_in").c_str(), 4096, SOCKET_ID_ANY, 0);
      pair.from_port = rte_ring_create((name + "_out").c_str(), 4096, SOCKET_ID_ANY, 0);
      ASSERT_GE(rte_eth_from_rings(name.c_str(), &pair.to_port, 1, &pair.from_port, 1, 0), 0);
      auto port = net::Port::open({.device = "net_ring_" + name, .pool = pool_});
      ASSERT_TRUE(port) << port.error().message;
      pair.port = std::make_unique<net::Port>(std::move(*port));
    }
  }

  void make(uint32_t rx_frames = 1024, uint32_t tx_frames = 1024) {
    shared_ = std::make_unique<Shared>(clock_);
    for (size_t p = 0; p < kPorts; ++p) {
      const uint16_t owner = static_cast<uint16_t>(p * kWorkersPerPort);
      std::vector<WorkerOptions> all(kWorkersPerPort);
      for (uint16_t i = 0; i < kWorkersPerPort; ++i) {
        WorkerOptions& options = all[i];
        options.id = static_cast<uint16_t>(owner + i);
        options.pool = pool_;
        options.local =
            net::make_local_addresses(
                ports_[p].port->info().mac,
                {.ipv4 = {"198.18.0.1", "198.18.0.7"}, .ipv6 = {}, .udp_port = 9009, .vlan = 0})
                .value();
        options.reassembly.max_contexts = options.reassembly.tenant_max_contexts = 256;
        options.seed = 1 + p;
        if (i == 0) continue;
        lanes_.push_back(SpreadLane::create({.owner = owner,
                                             .member = options.id,
                                             .rx_frames = rx_frames,
                                             .tx_frames = tx_frames})
                             .value());
        options.owner_lane = lanes_.back().get();
        all[0].member_lanes.push_back(lanes_.back().get());
      }
      for (const WorkerOptions& options : all)
        workers_.push_back(Worker::create(*ports_[p].port, *shared_, options).value());
    }
    auto owned = std::make_unique<FakeGroup>();
    group_ = owned.get();
    std::vector<ReturnRing*> returns;
    for (const auto& worker : workers_) returns.push_back(&worker->returns());
    stage_ = execution::GroupStage::create("fake", std::move(owned), device_, clock_, returns, {})
                 .value();
    shared_->groups.set(0, &stage_->inbox());
    tenant::Tenant tenant;
    tenant.id = kTenant;
    tenant.index = 3;
    tenant.auth = static_cast<uint8_t>(wire::Auth::kHeader);
    tenant.key.epoch = 5;
    tenant.key.bytes = kKey;
    tenant.max_payload_bytes = 16384;
    tenant.payload_kinds = 1u << static_cast<unsigned>(wire::PayloadKind::kTokensU16);
    tenant.lease = lease_;
    std::vector<tenant::Tenant> tenants = {tenant};
    shared_->tenants.publish(std::make_unique<tenant::Snapshot>(std::move(tenants), 1));
  }

  // Every datagram is accounted for, in each worker and in total, and no packet buffer leaked.
  void TearDown() override {
    run();
    clock_.advance_ns(3'000'000'000);  // past every timeout
    run();
    answers(0), answers(1);
    for (const auto& worker : workers_) {
      const WorkerFigures f = worker_figures(*worker);
      EXPECT_EQ(f.received, f.forwarded + f.held + f.total_repeated() + f.total_dropped());
      EXPECT_EQ(f.held, 0u);
    }
    EXPECT_EQ(total_figures(workers_).received, sent_);
    EXPECT_EQ(lease_->num_in_flight(), 0u);
    stage_.reset();
    workers_.clear();
    lanes_.clear();
    EXPECT_EQ(rte_mempool_in_use_count(pool_), 0u) << "packet buffers were leaked";
  }

  // A frame of the client with this UDP port.
  Bytes frame_of(uint16_t client, const Bytes& datagram, size_t port) const {
    Bytes frame = ipv4_frame(datagram, ports_[port].port->info().mac);
    frame[34] = static_cast<std::byte>(client >> 8);
    frame[35] = static_cast<std::byte>(client);
    return frame;
  }
  // The frames of a request of `count` tokens, whose first is the client's port, in pieces.
  std::vector<Bytes> frames(uint16_t client, uint64_t id, uint32_t count, size_t port = 0) {
    wire::Header header;
    header.type = wire::Type::kRequest;
    header.auth = wire::Auth::kHeader;
    header.tenant_id = kTenant;
    header.session = kSession;
    header.request_id = uint64_t{client} << 32 | id;  // workers may not mix clients up
    header.total_bytes = count * 2;
    header.payload_kind = wire::PayloadKind::kTokensU16;
    header.key_epoch = 5;
    header.fragment_bytes = 64;
    header.token = wire::address_token(shared_->token_secret,
                                       {.address = std::as_bytes(std::span(kClientIp)),
                                        .port = client,
                                        .session = kSession,
                                        .receiver = static_cast<uint16_t>(port * kWorkersPerPort)},
                                       clock_.now_ns() / kTokenPeriodNs);
    std::vector<uint16_t> tokens(count, 1);
    tokens[0] = client;
    const auto payload = std::as_bytes(std::span(tokens));
    std::vector<Bytes> all;
    for (; header.offset < header.total_bytes; header.offset += header.fragment_bytes) {
      header.sequence = next_sequence_++;
      const auto piece = payload.subspan(
          header.offset, std::min<size_t>(header.fragment_bytes, payload.size() - header.offset));
      Bytes datagram(wire::header_size(header.auth) + piece.size());
      EXPECT_EQ(wire::build(header, piece, kKey, datagram), datagram.size());
      all.push_back(frame_of(client, datagram, port));
    }
    return all;
  }
  void send(const Bytes& frame, size_t port = 0) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
    ASSERT_NE(mbuf, nullptr);
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(),
                frame.size());
    ASSERT_EQ(rte_ring_enqueue(ports_[port].to_port, mbuf), 0);
    ++sent_;
  }
  void ask(uint16_t client, uint64_t id, uint32_t count = 100, size_t port = 0) {
    for (const Bytes& frame : frames(client, id, count, port)) send(frame, port);
  }
  void run() {
    for (int rest = 0; rest < 3;) {
      clock_.advance_ns(1000);
      size_t done = stage_->poll();
      for (const auto& worker : workers_) done += worker->poll();
      rest = done == 0 ? rest + 1 : 0;
    }
  }
  // The payload bytes that left by this port, by client port and request, and the other frames.
  struct Sent {
    std::map<std::pair<uint16_t, uint64_t>, size_t> responses;
    std::vector<Bytes> others;
  };
  Sent answers(size_t port = 0) {
    Sent sent;
    void* object = nullptr;
    while (rte_ring_dequeue(ports_[port].from_port, &object) == 0) {
      auto* mbuf = static_cast<rte_mbuf*>(object);
      const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
      Bytes frame(data, data + mbuf->data_len);
      rte_pktmbuf_free(mbuf);
      const auto client = static_cast<uint16_t>(std::to_integer<unsigned>(frame[36]) << 8 |
                                                std::to_integer<unsigned>(frame[37]));
      wire::Datagram datagram;
      if (frame[12] != std::byte{8} || frame[13] != std::byte{0} || frame[23] != std::byte{17} ||
          wire::parse(std::span(frame).subspan(kFrameHeaders), datagram) !=
              wire::ParseError::kNone ||
          datagram.header.type != wire::Type::kResponse) {
        sent.others.push_back(std::move(frame));
        continue;
      }
      EXPECT_TRUE(wire::open(kKey, datagram));
      EXPECT_EQ(datagram.header.request_id >> 32, client) << "the answer goes to who asked";
      if (datagram.header.offset == 0) {
        float value;
        std::memcpy(&value, datagram.payload.data(), sizeof value);
        EXPECT_EQ(value, client);
      }
      sent.responses[{client, datagram.header.request_id & UINT32_MAX}] += datagram.payload.size();
    }
    return sent;
  }
  uint64_t received(size_t worker) const { return worker_figures(*workers_[worker]).received; }
  uint64_t dropped(size_t worker, net::DropReason reason) const {
    return worker_figures(*workers_[worker]).dropped[static_cast<size_t>(reason)];
  }
  // Returns a client whose flow belongs to this worker of the first port; sends a request of it.
  uint16_t client_of(size_t worker) {
    for (uint16_t client = 50000;; ++client) {
      const uint64_t before = received(worker);
      ask(client, 1, 2);
      run();
      answers();
      if (received(worker) > before) return client;
    }
  }

  static inline rte_mempool* pool_ = nullptr;
  static inline RingPair ports_[kPorts];
  VirtualClock clock_;
  FakeDevice device_;
  FakeGroup* group_ = nullptr;
  std::shared_ptr<tenant::Lease> lease_ = std::make_shared<tenant::Lease>(kPorts * kWorkersPerPort);
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<SpreadLane>> lanes_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<execution::GroupStage> stage_;
  uint64_t next_sequence_ = 1'000'000, sent_ = 0;
};

}  // namespace itif::pipeline::test
