// A worker under well-formed traffic: answers, reassembly, repeats, budgets, failures.
#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include <cstring>

#include "base/random.h"
#include "net/announce.h"
#include "wire/ranges.h"
#include "worker_fixture.h"

namespace itif::pipeline::test {
namespace {

using net::DropReason;
using wire::StatusCode;
using wire::Type;

TEST_F(WorkerTest, AnswersARequestOfOneDatagram) {
  send(datagrams(request(1, 6), token_payload({5, 6, 900}))[0]);
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
  EXPECT_EQ(got[0].header.request_id, 1u);
  EXPECT_EQ(got[0].header.aux, 3u);  // rows
  ASSERT_EQ(got[0].payload.size(), 12u);
  float values[3];
  std::memcpy(values, got[0].payload.data(), 12);
  EXPECT_EQ(values[2], 900);
  EXPECT_EQ(figures().forwarded, 1u);
}

TEST_F(WorkerTest, SendsQueuedAnswersBeforeItStops) {
  group->per_token = 1000;
  const Bytes payload = token_payload(500);  // an answer of 2 MB in about 1,400 datagrams
  for (const Bytes& piece : datagrams(request(1, 1000), payload)) send(piece);
  worker->poll();
  stage->poll();
  worker->poll();
  worker->stop();
  worker->run();
  size_t bytes = 0;
  for (const Answer& answer : answers())
    if (answer.header.type == Type::kResponse) bytes += answer.payload.size();
  EXPECT_EQ(bytes, 500u * 1000 * 4);
}

TEST_F(WorkerTest, JoinsPiecesInAnyOrderAndIgnoresDuplicates) {
  Random random(3);
  for (uint64_t id = 1; id <= 50; ++id) {
    const Bytes payload = token_payload(1 + static_cast<uint32_t>(random.below(400)));
    auto pieces = datagrams(request(id, static_cast<uint32_t>(payload.size())), payload);
    const size_t distinct = pieces.size();
    for (size_t i = 0; i < distinct / 3; ++i) pieces.push_back(pieces[random.below(distinct)]);
    for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.below(i)]);
    for (const Bytes& piece : pieces) send(piece);
    run();
    uint32_t responses = 0, bytes = 0;
    for (const Answer& answer : answers()) {
      if (answer.header.type != Type::kResponse) continue;  // busy, resend
      responses += answer.header.offset == 0;
      bytes += answer.header.payload_bytes;
      float value;
      std::memcpy(&value, answer.payload.data(), 4);
      EXPECT_EQ(value, static_cast<float>(answer.header.offset / 4));
    }
    // A late duplicate of the first piece may fetch the whole answer again.
    ASSERT_GE(responses, 1u);
    EXPECT_EQ(bytes, responses * payload.size() * 2);
  }
  EXPECT_EQ(group->batches, 50u);
}

TEST_F(WorkerTest, RepeatIsAnsweredFromTheCacheUntilAcked) {
  const Bytes datagram = datagrams(request(1, 2), token_payload({9}))[0];
  send(datagram);
  run();
  EXPECT_EQ(answers().size(), 1u);
  send(datagram);
  run();
  ASSERT_EQ(answers().size(), 1u);
  EXPECT_EQ(group->batches, 1u);
  EXPECT_EQ(dropped(DropReason::kAnsweredFromCache), 1u);
  EXPECT_EQ(figures().total_repeated(), 1u);
  EXPECT_EQ(figures().total_dropped(), 0u);
  wire::Header ack = request(1, 0);
  ack.type = Type::kAck;
  ack.payload_kind = wire::PayloadKind::kNone;
  ack.fragment_bytes = 0;
  send(seal(ack, {}));
  send(datagram);
  run();
  EXPECT_EQ(answers().size(), 1u);
  EXPECT_EQ(group->batches, 2u);  // forgotten, so run again
}

// A datagram that names a tenant counts for it, even with a wrong tag. All others count for the
// worker only.
TEST_F(WorkerTest, DatagramsOfATenantAreCountedByOutcome) {
  const auto tenant = [&] { return tenant_figures({&worker, 1}, default_tenant().index); };
  const auto count = [&](DropReason reason) {
    return tenant().dropped[static_cast<size_t>(reason)];
  };
  const auto halves = datagrams(request(1, 200), token_payload(100));
  send(halves[0]);
  poll_worker();
  EXPECT_EQ(tenant().received, 1u);
  EXPECT_EQ(tenant().held, 1u);
  send(halves[0]);
  EXPECT_EQ((poll_worker(), count(DropReason::kDuplicate)), 1u);
  const wire::Key other_key = {std::byte{9}};
  wire::Header forged = request(2, 2);
  forged.sequence = UINT32_MAX;
  send(seal(forged, token_payload({9}), other_key));
  EXPECT_EQ((poll_worker(), count(DropReason::kBadTag)), 1u);
  wire::Header stranger = request(3, 2);
  stranger.tenant_id = 99;
  send(datagrams(stranger, token_payload({9}))[0]);
  send(Bytes(60));
  poll_worker();
  EXPECT_EQ(tenant().received, 3u);
  EXPECT_EQ(figures().received, 5u);
  for (size_t i = 1; i < halves.size(); ++i) send(halves[i]);
  run();
  EXPECT_EQ(tenant().held, 0u);
  EXPECT_EQ(tenant().forwarded, halves.size());
  EXPECT_EQ(tenant().total_repeated(), 1u);
  EXPECT_EQ(tenant().total_dropped(), 1u);
  EXPECT_EQ(tenant().received, tenant().forwarded + 2);
}

TEST_F(WorkerTest, AnswersPastTheObjectiveAreCounted) {
  tenant::Tenant t = default_tenant();
  t.slo_ns = 1'000'000;
  publish({t});
  const auto missed = [&] { return tenant_figures({&worker, 1}, t.index).slo_missed; };
  for (const uint64_t late_ns : {900'000u, 1'100'000u}) {
    const uint64_t before = missed();
    send(datagrams(request(late_ns, 2), token_payload({9}))[0]);
    poll_worker();
    clock.advance_ns(late_ns);
    run();
    EXPECT_EQ(missed() - before, late_ns > t.slo_ns);
  }
}

TEST_F(WorkerTest, RepeatWhileExecutingIsAnsweredBusy) {
  const Bytes datagram = datagrams(request(1, 2), token_payload({9}))[0];
  send(datagram);
  poll_worker();
  send(datagram);
  poll_worker();
  auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kBusy);
  EXPECT_EQ(got[0].header.aux, 1u);
  EXPECT_EQ(got[0].header.budget_us, 0u) << "the group has not learnt how long it takes";
  run();
  got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
}

// A batch of 20 ms runs, and nothing waits behind it.
TEST_F(WorkerTest, BusySaysWhenToAskAgain) {
  group->clock = &clock;
  group->cost_ns_per_batch = 20'000'000;
  uint64_t id = 0;
  for (int i = 0; i < 5; ++i) {  // the group learns its cost
    send(datagrams(request(++id, 2), token_payload({9}))[0]);
    run();
  }
  for (int i = 0; i < 50; ++i) send(datagrams(request(++id, 2), token_payload({9}))[0]);
  while (worker->poll() > 0) continue;
  answers();
  group->on_forward = [&] {
    group->on_forward = nullptr;
    send(datagrams(request(id, 2), token_payload({9}))[0]);
    poll_worker();
  };
  stage->poll();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kBusy);
  EXPECT_NEAR(got[0].header.budget_us, 20'000, 2'000);
  run();
}

TEST_F(WorkerTest, MissingPiecesAreRequestedThenSwept) {
  auto pieces = datagrams(request(1, 200), token_payload(100));
  ASSERT_EQ(pieces.size(), 4u);
  send(pieces[2]);
  run();
  clock.advance_ns(40'000'000);
  run();
  auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResend);
  std::array<wire::Range, wire::kMaxRanges> ranges;
  ASSERT_EQ(wire::parse_ranges(got[0].payload, 200, ranges), 2u);
  EXPECT_EQ(ranges[0].offset, 0u);
  EXPECT_EQ(ranges[0].bytes, 128u);
  EXPECT_EQ(ranges[1].offset, 192u);
  clock.advance_ns(600'000'000);
  run();
  StatusCode last = StatusCode::kOk;
  for (const Answer& answer : answers())
    if (answer.header.type == Type::kStatus) last = answer.header.status;
  EXPECT_EQ(last, StatusCode::kDeadlineReassembly);
  EXPECT_EQ(dropped(DropReason::kReassemblyTimeout), 1u);
  EXPECT_EQ(buffers_in_use(), 0u);
}

TEST_F(WorkerTest, LongResponsesAreFragmentedAndResent) {
  group->per_token = 300;
  const uint32_t total = 20 * 300 * 4;
  send(datagrams(request(1, 40), token_payload(20))[0]);
  run();
  auto got = answers();
  ASSERT_GT(got.size(), 10u);
  uint32_t seen = 0;
  for (const Answer& answer : got) {
    EXPECT_EQ(answer.header.total_bytes, total);
    EXPECT_EQ(answer.header.offset, seen);
    seen += answer.header.payload_bytes;
  }
  EXPECT_EQ(seen, total);
  wire::Header resend = request(1, total);
  resend.type = Type::kResend;
  resend.flags = wire::kFlagOfResponse;
  resend.payload_kind = wire::PayloadKind::kNone;
  resend.fragment_bytes = got[0].header.fragment_bytes;
  const wire::Range range{got[3].header.offset, got[3].header.payload_bytes};
  Bytes payload(8);
  ASSERT_EQ(wire::build_ranges({&range, 1}, total, payload), 8u);
  send(seal(resend, payload));
  run();
  const auto again = answers();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].header.offset, got[3].header.offset);
  EXPECT_EQ(again[0].payload, got[3].payload);
}

TEST_F(WorkerTest, FailedDeviceIsReportedForEveryRequest) {
  group->fail_next = true;
  for (uint64_t id = 1; id <= 3; ++id) send(datagrams(request(id, 2), token_payload({9}))[0]);
  run();
  send(datagrams(request(4, 2), token_payload({9}))[0]);
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 4u);
  for (const Answer& answer : got) EXPECT_EQ(answer.header.status, StatusCode::kDeviceFailed);
}

TEST_F(WorkerTest, RequestsPastTheirBudgetAreRefusedInTheQueue) {
  wire::Header header = request(1, 2);
  header.budget_us = 500;
  send(datagrams(header, token_payload({9}))[0]);
  poll_worker();
  clock.advance_ns(1'000'000);
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.status, StatusCode::kDeadlineQueue);
  EXPECT_EQ(group->batches, 0u);
}

TEST_F(LateWorkerTest, PacketsReturnToTheirPoolBeforeTheAnswer) {
  const Bytes payload = token_payload(500);
  const auto pieces = datagrams(request(1, 1000), payload);
  ASSERT_EQ(pieces.size(), 16u);
  for (const Bytes& piece : pieces) send(piece);
  poll_worker();
  EXPECT_EQ(figures().held, 16u);
  EXPECT_EQ(buffers_in_use(), 16u);
  begin();
  const auto tenant = [&] { return tenant_figures({&worker, 1}, default_tenant().index); };
  EXPECT_EQ(figures().held, 0u);
  EXPECT_EQ(figures().held_bytes, 0u);
  EXPECT_EQ(tenant().held, 0u);
  EXPECT_EQ(figures().forwarded, 16u);
  EXPECT_EQ(tenant().forwarded, 16u);
  EXPECT_EQ(buffers_in_use(), 0u);
  EXPECT_EQ(figures().contexts, 1u);
  EXPECT_EQ(stage->num_executing(), 1u);
  EXPECT_TRUE(answers().empty());

  send(pieces[0]);
  send(pieces[5]);
  poll_worker();
  EXPECT_EQ(dropped(DropReason::kLate), 2u);
  auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kBusy);

  device.holds = false;
  run();
  uint32_t row = 0;
  for (const Answer& answer : answers())
    for (size_t at = 0; at + 4 <= answer.payload.size(); at += 4, ++row) {
      float value = 0;
      std::memcpy(&value, answer.payload.data() + at, 4);
      EXPECT_EQ(value, static_cast<float>(row));
    }
  EXPECT_EQ(row, 500u);
  EXPECT_EQ(figures().forwarded, 16u);
}

TEST_F(LateWorkerTest, FailureAfterTheGatherIsAnswered) {
  send(datagrams(request(1, 2), token_payload({9}))[0]);
  begin();
  EXPECT_EQ(buffers_in_use(), 0u);
  group->fail_next = true;
  device.holds = false;
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.status, StatusCode::kDeviceFailed);
}

// Packets that the group returned and the worker has not taken yet are freed once.
TEST_F(LateWorkerTest, StopsWithPacketsInTheReturnRing) {
  send(datagrams(request(1, 2), token_payload({9}))[0]);
  send(datagrams(request(2, 2), token_payload({9}))[0]);
  poll_worker();
  for (int i = 0; i < 3; ++i) stage->poll();
  EXPECT_EQ(worker->returns().size(), 2u);
  send(datagrams(request(3, 2), token_payload({9}))[0]);
  poll_worker();
  EXPECT_EQ(buffers_in_use(), 1u);
}

// Requests of any length, repeats, budgets that expire in the queue, batches that end at any time.
TEST_F(LateWorkerTest, NoPacketIsLeakedOrFreedTwiceInAnyOrder) {
  Random random(11);
  uint64_t id = 0;
  uint32_t answered = 0;
  std::vector<Bytes> sent;
  for (int turn = 0; turn < 3000; ++turn) {
    switch (random.below(6)) {
      case 0:
      case 1: {
        const auto tokens = 1 + static_cast<uint32_t>(random.below(300));
        wire::Header header = request(++id, 2 * tokens);
        if (random.below(8) == 0) header.budget_us = 200;
        sent = datagrams(header, token_payload(tokens));
        for (const Bytes& piece : sent) send(piece);
        break;
      }
      case 2:
        if (!sent.empty()) send(sent[random.below(sent.size())]);
        break;
      case 3: device.holds = random.below(4) != 0; break;
      case 4: stage->poll(); break;
      default: poll_worker(); break;
    }
    clock.advance_ns(random.below(50'000));
    for (const Answer& answer : answers())
      answered += answer.header.type == Type::kResponse && answer.header.offset == 0;
  }
  EXPECT_GT(answered, 200u);
}

TEST_F(WorkerTest, PingAndHelloNeedNoTenant) {
  wire::Header ping;
  ping.type = Type::kPing;
  ping.session = 1;
  const Bytes echo = token_payload({1, 2, 3});
  send(seal(ping, echo));
  wire::Header hello;
  hello.type = Type::kHello;
  hello.session = 1;
  send(seal(hello, {}));
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].header.type, Type::kPong);
  EXPECT_EQ(got[0].payload, echo);
  EXPECT_EQ(got[1].header.type, Type::kToken);
  EXPECT_NE(got[1].header.token, 0u);
}

TEST_F(WorkerTest, AnnouncesAddressesWhenTheLinkComesUp) {
  const uint16_t id = worker->port().info().id;
  ASSERT_EQ(rte_eth_dev_set_link_down(id), 0);
  clock.advance_ns(200'000'000);
  run();
  EXPECT_TRUE(sent_frames().empty());
  ASSERT_EQ(rte_eth_dev_set_link_up(id), 0);
  clock.advance_ns(200'000'000);
  run();
  EXPECT_EQ(sent_frames(), net::announcements(options.local));
  clock.advance_ns(200'000'000);
  run();
  EXPECT_TRUE(sent_frames().empty());
}

}  // namespace
}  // namespace itif::pipeline::test
