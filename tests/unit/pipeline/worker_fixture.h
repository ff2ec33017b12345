// A worker on a ring port, a group with a fake model and a virtual clock. The test feeds datagrams,
// polls step by step and reads the datagrams sent.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "execution/group_stage.h"
#include "fake_group.h"
#include "net/mempool.h"
#include "pipeline/figures.h"
#include "pipeline/worker.h"

namespace itif::pipeline::test {

using execution::test::FakeDevice;
using execution::test::FakeGroup;

using Bytes = std::vector<std::byte>;

struct Answer {
  wire::Header header;
  Bytes payload;
};

class WorkerTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kTenant = 7;
  static constexpr wire::Key kKey = {std::byte{1}, std::byte{2}, std::byte{3}};

  static void SetUpTestSuite();
  void SetUp() override;
  // Checks that every received datagram is accounted for, none is held and no packet buffer leaked.
  void TearDown() override;

  WorkerOptions options;
  virtual void configure() {}

  // Returns a valid request header.
  wire::Header request(uint64_t id, uint32_t total_bytes) const;
  static Bytes token_payload(std::initializer_list<uint16_t> ids);
  static Bytes token_payload(uint32_t count);
  // Returns all datagrams of a request, in order of offset.
  std::vector<Bytes> datagrams(const wire::Header& header, const Bytes& payload) const;
  static Bytes seal(const wire::Header& header, std::span<const std::byte> payload,
                    const wire::Key& key = kKey);

  // Sends a datagram as a client does, in an IPv4 frame to the worker's address. A datagram with a
  // right tag gets a new sequence number, so that a test may send it again as a client's repeat.
  void send(const Bytes& datagram);
  // Sends exactly these bytes, as one who has captured them.
  void replay(const Bytes& datagram);
  // Returns the token of the test's client for a session.
  uint64_t token_of(uint32_t session) const;
  void send_frame(const Bytes& frame);
  // Polls worker and group until both are idle.
  void run();
  void poll_worker();
  // Returns the datagrams answered since the last call, and checks their tags.
  std::vector<Answer> answers();
  // Returns the frames sent since the last call, unparsed.
  static std::vector<Bytes> sent_frames();

  void publish(std::vector<tenant::Tenant> tenants,
               tenant::Intake intake = tenant::Intake::kAccept);
  tenant::Tenant default_tenant() const;
  WorkerFigures figures() const { return worker_figures(*worker); }
  uint64_t dropped(net::DropReason reason) const {
    return figures().dropped[static_cast<size_t>(reason)];
  }
  static unsigned buffers_in_use();

  VirtualClock clock;
  FakeDevice device;
  std::unique_ptr<Shared> shared;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<execution::GroupStage> stage;
  FakeGroup* group = nullptr;
  std::shared_ptr<tenant::Lease> lease = std::make_shared<tenant::Lease>(1);

 private:
  uint64_t generation_ = 0;
};

// A group that reads its inputs at once, and whose batches end only when device.holds is cleared.
class LateWorkerTest : public WorkerTest {
 protected:
  void configure() override { device.is_late = device.holds = true; }
  void TearDown() override {
    device.holds = false;
    WorkerTest::TearDown();
  }
  // Lets the group begin a batch and return its packets, and the worker free them.
  void begin() {
    poll_worker();
    for (int i = 0; i < 3; ++i) stage->poll();
    poll_worker();
  }
};

}  // namespace itif::pipeline::test
