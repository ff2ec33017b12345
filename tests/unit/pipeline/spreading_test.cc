// Workers that share a queue: flows, sums, full rings, answers.
#include <set>
#include <thread>

#include "spreading_fixture.h"

namespace itif::pipeline::test {
namespace {

using net::DropReason;

TEST_F(SpreadingTest, EveryClientIsAnsweredByOneWorker) {
  make();
  std::set<size_t> used;
  for (uint16_t client = 40000; client < 40060; ++client) {
    std::map<size_t, uint64_t> before;
    for (size_t w = 0; w < workers_.size(); ++w) before[w] = received(w);
    for (uint64_t id = 1; id <= 3; ++id) ask(client, id);
    run();
    const Sent sent = answers();
    EXPECT_EQ(sent.responses.size(), 3u);
    for (const auto& [who, bytes] : sent.responses) EXPECT_EQ(bytes, 400u);
    EXPECT_TRUE(sent.others.empty());
    size_t moved = 0;
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (received(w) == before[w]) continue;
      EXPECT_EQ(received(w), before[w] + 12);
      used.insert(w);
      ++moved;
    }
    EXPECT_EQ(moved, 1u);
  }
  EXPECT_EQ(used, (std::set<size_t>{0, 1, 2})) << "the first port's workers, and all of them";
  const WorkerFigures owner = worker_figures(*workers_[0]);
  EXPECT_EQ(owner.passed, received(1) + received(2));
  // The owner of the queue sends for all.
  EXPECT_EQ(owner.sent, 180u);
  EXPECT_EQ(worker_figures(*workers_[1]).sent, 0u);
}

TEST_F(SpreadingTest, MixedBurstsAreAnsweredOnceByTheRightPort) {
  make();
  std::vector<std::pair<Bytes, size_t>> all;
  for (uint16_t client = 41000; client < 41200; ++client)
    for (const Bytes& frame : frames(client, 1, 40, client % 2))
      all.emplace_back(frame, client % 2);
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first[35]; });
  for (const auto& [frame, port] : all) send(frame, port);
  run();
  for (const size_t port : {0u, 1u}) {
    const Sent sent = answers(port);
    EXPECT_EQ(sent.responses.size(), 100u);
    for (const auto& [who, bytes] : sent.responses) {
      EXPECT_EQ(who.first % 2, port);
      EXPECT_EQ(bytes, 160u);
    }
  }
  for (size_t w = 0; w < workers_.size(); ++w) EXPECT_GT(received(w), 20u);
}

TEST_F(SpreadingTest, AFullRingIsCountedAndNothingElseIsLost) {
  make(/*rx_frames=*/8);
  constexpr uint64_t kRequests = 300;
  for (uint16_t client = 42000; client < 42000 + kRequests; ++client) ask(client, 1, 2);
  clock_.advance_ns(1000);
  for (int i = 0; i < 10; ++i) workers_[0]->poll();
  const uint64_t lost = dropped(0, DropReason::kWorkerQueueFull);
  const WorkerFigures owner = worker_figures(*workers_[0]);
  EXPECT_EQ(owner.passed, 16u) << "the room of two rings";
  EXPECT_EQ(owner.received, kRequests - 16);
  EXPECT_GT(lost, kRequests / 2);
  EXPECT_LT(lost, kRequests * 3 / 4);
  run();
  EXPECT_EQ(received(1), 8u);
  EXPECT_EQ(received(2), 8u);
  EXPECT_EQ(answers().responses.size(), kRequests - lost);
}

TEST_F(SpreadingTest, AnswersWaitForRoomInTheRing) {
  make(1024, /*tx_frames=*/4);
  group_->per_token = 1000;
  const uint16_t owners = client_of(0), members = client_of(1);
  ask(owners, 2, 200);
  ask(members, 2, 200);
  for (int i = 0; i < 5; ++i) {
    workers_[0]->poll();
    workers_[1]->poll();
    stage_->poll();
  }
  // The owner pauses, for as long as it likes.
  for (int i = 0; i < 2; ++i) {
    workers_[1]->poll();
    clock_.advance_ns(net::TxBuffer::kMaxRefusalNs);
  }
  EXPECT_TRUE(lanes_[0]->has_to_send());
  EXPECT_EQ(workers_[1]->poll(), 0u) << "it idles";
  std::map<std::pair<uint16_t, uint64_t>, size_t> bytes;
  for (int i = 0; i < 2000; ++i) {
    clock_.advance_ns(1000);
    stage_->poll();
    for (const auto& worker : workers_) worker->poll();
    for (const auto& [who, count] : answers().responses) bytes[who] += count;
  }
  EXPECT_EQ((bytes[{owners, 2}]), 200u * 1000 * 4);
  EXPECT_EQ((bytes[{members, 2}]), 200u * 1000 * 4);
  EXPECT_EQ(total_figures(workers_).send_dropped, 0u);
}

// A port that takes a few frames at a time sends those of all workers.
TEST_F(SpreadingTest, ABusyPortServesOwnerAndMembers) {
  make();
  group_->per_token = 1000;
  const uint16_t owners = client_of(0), members = client_of(2);
  while (rte_ring_free_count(ports_[0].from_port) > 1) {
    rte_mbuf* stuffing = rte_pktmbuf_alloc(pool_);
    std::memset(rte_pktmbuf_append(stuffing, 60), 0, 60);
    ASSERT_EQ(rte_ring_enqueue(ports_[0].from_port, stuffing), 0);
  }
  ask(owners, 2, 300);
  ask(members, 2, 300);
  for (int i = 0; i < 800; ++i) {
    clock_.advance_ns(1000);
    stage_->poll();
    for (const auto& worker : workers_) worker->poll();
    void* object = nullptr;
    ASSERT_EQ(rte_ring_dequeue(ports_[0].from_port, &object), 0);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(object));
  }
  std::map<uint16_t, size_t> served;
  for (const auto& [who, bytes] : answers().responses) served[who.first] += bytes;
  const double total = static_cast<double>(served[members] + served[owners]);
  EXPECT_GT(total, 0);
  EXPECT_NEAR(static_cast<double>(served[members]) / total, 0.5, 0.2);
}

TEST_F(SpreadingTest, NeighboursAreAnsweredByTheOwner) {
  make();
  Bytes arp(42);
  std::memset(arp.data(), 0xff, 6);
  std::memcpy(arp.data() + 6, kClientMac.data(), 6);
  const unsigned char fields[] = {8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
  std::memcpy(arp.data() + 12, fields, sizeof fields);
  std::memcpy(arp.data() + 22, kClientMac.data(), 6);
  std::memcpy(arp.data() + 28, kClientIp, 4);
  std::memcpy(arp.data() + 38, kOurIp, 4);
  for (int i = 0; i < 20; ++i) send(arp);
  run();
  EXPECT_EQ(answers().others.size(), 20u);
  EXPECT_EQ(worker_figures(*workers_[0]).forwarded, 20u);
  EXPECT_EQ(worker_figures(*workers_[0]).passed, 0u);
}

// The worker that knows a session gets its captured datagrams, whichever address they are for.
TEST_F(SpreadingTest, ACapturedDatagramRunsOnce) {
  make();
  const uint16_t client = client_of(2);
  Bytes frame = frames(client, 9, 2)[0];
  send(frame);
  run();
  EXPECT_EQ(answers().responses.size(), 1u);
  frame[33] = std::byte{7};  // 198.18.0.7
  uint32_t sum = (std::to_integer<uint32_t>(frame[24]) << 8) + std::to_integer<uint32_t>(frame[25]);
  sum = sum < 6 ? sum + 0xffff - 6 : sum - 6;
  frame[24] = static_cast<std::byte>(sum >> 8);
  frame[25] = static_cast<std::byte>(sum);
  send(frame);
  run();
  EXPECT_TRUE(answers().responses.empty());
  EXPECT_EQ(dropped(2, DropReason::kReplayed), 1u);
}

// The workers of another queue do not know the sequence numbers that were accepted here.
TEST_F(SpreadingTest, ACapturedDatagramDoesNotRunAtAnotherPort) {
  make();
  for (const uint16_t client : {client_of(0), client_of(1), client_of(2)}) {
    const Bytes frame = frames(client, 9, 2)[0];
    const Bytes captured(frame.begin() + kFrameHeaders, frame.end());
    send(frame);
    run();
    EXPECT_EQ(answers(0).responses.size(), 1u);
    send(frame_of(client, captured, 1), 1);
    run();
    EXPECT_TRUE(answers(1).responses.empty());
    EXPECT_TRUE(answers(0).responses.empty());
  }
  uint64_t refused = 0;
  for (size_t w = kWorkersPerPort; w < 2 * kWorkersPerPort; ++w)
    refused += dropped(w, DropReason::kTokenRequired);
  EXPECT_EQ(refused, 3u);
}

TEST_F(SpreadingTest, TheOwnerStopsAfterItsMembersHaveSent) {
  make(1024, /*tx_frames=*/16);
  group_->per_token = 1000;
  const uint16_t client = client_of(1);
  ask(client, 2, 200);
  workers_[0]->poll();
  workers_[1]->poll();
  stage_->poll();
  workers_[1]->poll();  // an answer of several hundred datagrams
  for (size_t w = 0; w < kWorkersPerPort; ++w) {
    workers_[w]->allow_run();
    workers_[w]->stop();
  }
  workers_[2]->run();  // has nothing to send
  std::thread owner([&] { workers_[0]->run(); });
  workers_[1]->run();
  owner.join();
  size_t bytes = 0;
  for (const auto& [who, count] : answers().responses) bytes += count;
  EXPECT_EQ(bytes, 200u * 1000 * 4);
}

// A member's queue is empty when it hears of the handover, but its owner's is not.
TEST_F(SpreadingTest, MembersAcceptWhatTheirOwnerReceivedBeforeAHandover) {
  make();
  const uint16_t client = client_of(1);
  ask(client, 2, 2);
  std::vector<tenant::Tenant> tenants = shared_->tenants.acquire(0).tenants();
  shared_->tenants.publish(std::make_unique<tenant::Snapshot>(tenants, 2, tenant::Intake::kIgnore));
  workers_[1]->poll();
  clock_.advance_ns(1'000'000'000);  // the owner has no CPU time
  workers_[1]->poll();
  EXPECT_EQ(workers_[1]->intake(), tenant::Intake::kAccept);
  workers_[0]->poll();
  EXPECT_EQ(workers_[0]->intake(), tenant::Intake::kIgnore);
  EXPECT_EQ(workers_[1]->intake(), tenant::Intake::kAccept);
  run();
  EXPECT_EQ(answers().responses.count({client, 2}), 1u);
  for (const auto& worker : workers_) EXPECT_EQ(worker->intake(), tenant::Intake::kIgnore);
  ask(client, 3, 2);
  run();
  EXPECT_TRUE(answers().responses.empty());
  EXPECT_EQ(dropped(1, net::DropReason::kHandedOver), 1u);

  // The handover fails, and another one begins.
  shared_->tenants.publish(std::make_unique<tenant::Snapshot>(tenants, 3));
  run();
  for (const auto& worker : workers_) EXPECT_EQ(worker->intake(), tenant::Intake::kAccept);
  shared_->tenants.publish(std::make_unique<tenant::Snapshot>(tenants, 4, tenant::Intake::kIgnore));
  workers_[1]->poll();
  EXPECT_EQ(workers_[1]->intake(), tenant::Intake::kAccept) << "its owner still accepts";
}

}  // namespace
}  // namespace itif::pipeline::test
