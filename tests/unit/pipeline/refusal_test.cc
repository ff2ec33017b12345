// Refusals of a worker: the status sent, the drop reason counted, and no leak after random bad
// datagrams.
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "worker_fixture.h"

namespace itif::pipeline::test {
namespace {

using net::DropReason;
using wire::StatusCode;
using wire::Type;

struct Case {
  const char* name;
  DropReason reason;
  StatusCode status;  // kOk: no answer
};

class Refusals : public WorkerTest {
 protected:
  void expect(const Case& expected, const Bytes& datagram) {
    const uint64_t before = dropped(expected.reason);
    send(datagram);
    run();
    EXPECT_EQ(dropped(expected.reason), before + 1) << expected.name;
    const auto got = answers();
    ASSERT_EQ(got.size(), expected.status == StatusCode::kOk ? 0u : 1u) << expected.name;
    if (!got.empty()) {
      EXPECT_EQ(got[0].header.type, Type::kStatus);
      EXPECT_EQ(got[0].header.status, expected.status) << wire::status_name(got[0].header.status);
    }
    EXPECT_EQ(group->batches, 0u);
  }
  Bytes one(const wire::Header& header) { return datagrams(header, token_payload({9}))[0]; }
};

TEST_F(Refusals, EachHasAReasonAndAStatus) {
  wire::Header header = request(1, 2);
  header.tenant_id = 8;
  expect({"unknown tenant", DropReason::kUnknownTenant, StatusCode::kOk}, one(header));

  Bytes bad_tag = one(request(2, 2));
  bad_tag[wire::kHeaderBytes + 5] ^= std::byte{1};
  expect({"bad tag", DropReason::kBadTag, StatusCode::kOk}, bad_tag);

  header = request(3, 2);
  header.key_epoch = 4;
  expect({"bad epoch", DropReason::kBadEpoch, StatusCode::kOk}, one(header));

  header = request(4, 2);
  header.auth = wire::Auth::kNone;
  header.key_epoch = 0;
  expect({"weak auth", DropReason::kBadAuth, StatusCode::kOk}, one(header));

  header = request(5, 2);
  header.payload_kind = wire::PayloadKind::kRaw;
  expect({"kind", DropReason::kUnsupportedKind, StatusCode::kUnsupportedKind}, one(header));

  header = request(6, 3);
  expect({"odd length", DropReason::kWireBadGeometry, StatusCode::kMalformed},
         datagrams(header, Bytes(3))[0]);

  header = request(7, 20'000);
  expect({"too long", DropReason::kTooLong, StatusCode::kTooLong},
         datagrams(header, Bytes(20'000))[0]);

  tenant::Tenant paused = default_tenant();
  paused.state = tenant::State::kPaused;
  publish({paused});
  expect({"paused", DropReason::kNotAdmitted, StatusCode::kNotAdmitted}, one(request(8, 2)));

  publish({default_tenant()}, tenant::Intake::kRefuse);
  expect({"draining", DropReason::kDraining, StatusCode::kDraining}, one(request(9, 2)));
}

// Another process takes over: it gets new and incomplete requests from their clients' repeats.
TEST_F(Refusals, ForgetsIncompleteRequestsAndIgnoresNewOnesDuringAHandover) {
  const Bytes payload = token_payload(uint32_t{100});
  const std::vector<Bytes> pieces =
      datagrams(request(1, static_cast<uint32_t>(payload.size())), payload);
  ASSERT_GT(pieces.size(), 1u);
  send(pieces[0]);
  run();
  EXPECT_EQ(lease->num_in_flight(), 1u);
  publish({default_tenant()}, tenant::Intake::kIgnore);
  poll_worker();
  EXPECT_EQ(lease->num_in_flight(), 0u);
  send(pieces[1]);
  send(one(request(2, 2)));
  wire::Header other_token = request(3, 2);  // of the other process
  other_token.token ^= 1;
  send(one(other_token));
  wire::Header hello;
  hello.type = Type::kHello;
  send(seal(hello, {}));
  run();
  EXPECT_TRUE(answers().empty()) << "the other process answers";
  EXPECT_EQ(dropped(DropReason::kHandedOver), 5u);

  publish({default_tenant()}, tenant::Intake::kAccept);  // the handover failed
  for (const Bytes& piece : pieces) send(piece);
  send(one(request(2, 2)));
  run();
  EXPECT_EQ(answers().size(), 2u);
}

// Only this process has the requests that waited in the port's queue when the other one opened it.
TEST_F(Refusals, AcceptsRequestsThatArrivedBeforeAHandover) {
  constexpr uint64_t kWaiting = 150;  // more than two bursts
  for (uint64_t id = 1; id <= kWaiting; ++id) send(one(request(id, 2)));
  publish({default_tenant()}, tenant::Intake::kIgnore);
  poll_worker();
  EXPECT_EQ(worker->intake(), tenant::Intake::kAccept) << "more may wait";
  run();
  EXPECT_EQ(answers().size(), kWaiting);
  EXPECT_EQ(worker->intake(), tenant::Intake::kIgnore);
  send(one(request(kWaiting + 1, 2)));
  run();
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(dropped(DropReason::kHandedOver), 1u);
}

// A queue that is never empty does not delay the handover for ever: no more than so many frames
// waited in it at the switch.
TEST_F(Refusals, IgnoresAFullQueueInTheEnd) {
  publish({default_tenant()}, tenant::Intake::kIgnore);
  uint64_t sent = 0;
  while (worker->intake() != tenant::Intake::kIgnore && sent < 100'000) {
    for (int i = 0; i < 64; ++i) send(one(request(++sent, 2)));
    poll_worker();
    stage->poll();
    answers();
    clock.advance_ns(10'000'000);
  }
  EXPECT_EQ(sent, 32768u);
}

TEST_F(Refusals, AnswersAcceptedRequestsDuringAHandover) {
  send(one(request(1, 2)));
  poll_worker();
  publish({default_tenant()}, tenant::Intake::kIgnore);
  run();
  const std::vector<Answer> all = answers();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].header.type, Type::kResponse);
}

TEST_F(Refusals, QuotaRefusalSaysWhenToRetry) {
  tenant::Tenant limited = default_tenant();
  limited.quota_rps = 10;
  publish({limited});
  for (uint64_t id = 1; id <= 20; ++id) send(one(request(id, 2)));
  run();
  uint32_t refused = 0, answered = 0;
  for (const Answer& answer : answers()) {
    if (answer.header.type == Type::kResponse) {
      ++answered;
    } else {
      EXPECT_EQ(answer.header.status, StatusCode::kOverQuota);
      EXPECT_GT(answer.header.aux, 10'000u);
      ++refused;
    }
  }
  EXPECT_EQ(answered, 8u);  // the burst
  EXPECT_EQ(refused, 12u);
}

// Requests refused on arrival were left out.
TEST_F(Refusals, ATraceHasRequestsThatAreRefusedOnArrival) {
  const auto trace = shared->tracer.start(kTenant, 100);
  ASSERT_TRUE(trace);
  const auto refuse = [&](const Bytes& datagram) {
    clock.advance_ns(1'000'000);
    send(datagram);
    poll_worker();
    answers();
  };
  tenant::Tenant paused = default_tenant();
  paused.state = tenant::State::kPaused;
  publish({paused});
  refuse(one(request(1, 2)));
  publish({default_tenant()}, tenant::Intake::kRefuse);
  refuse(one(request(2, 2)));
  tenant::Tenant limited = default_tenant();
  limited.quota_rps = 1;
  publish({limited});
  for (uint64_t id = 100; id < 120; ++id) refuse(one(request(id, 2)));  // more than its burst
  publish({default_tenant()});
  wire::Header raw = request(5, 2);
  raw.payload_kind = wire::PayloadKind::kRaw;
  refuse(one(raw));
  // Forged datagrams, those of other tenants, and those that prove no address are left out.
  Bytes bad_tag = one(request(6, 2));
  bad_tag[wire::kHeaderBytes + 5] ^= std::byte{1};
  refuse(bad_tag);
  wire::Header no_token = request(7, 2);
  no_token.token = 0;
  refuse(one(no_token));
  tenant::Tenant other = paused;
  other.id = kTenant + 1;
  other.index = 1;
  publish({default_tenant(), other});
  wire::Header others = request(8, 2);
  others.tenant_id = other.id;
  refuse(one(others));
  // Only its first piece tells a client of the refusal.
  publish({paused});
  const std::vector<Bytes> pieces = datagrams(request(9, 200), token_payload(100));
  for (const Bytes& piece : pieces) refuse(piece);
  publish({default_tenant()});
  run();
  const std::vector<TracedRequest> traced = shared->tracer.read(*trace, 0, 100)->requests;
  std::vector<std::pair<uint64_t, StatusCode>> refused;
  for (const TracedRequest& each : traced) {
    if (each.status == StatusCode::kOk) continue;
    refused.emplace_back(each.request_id, each.status);
    EXPECT_EQ(each.session, 77u);
    EXPECT_GT(each.times.arrival_ns, 0u);
    EXPECT_EQ(each.times.last_out_ns, each.times.arrival_ns);
    EXPECT_EQ(each.times.complete_ns, 0u);
  }
  EXPECT_GT(std::erase_if(refused,
                          [](const auto& one) {
                            return one.first < 119 && one.second == StatusCode::kOverQuota;
                          }),
            0u);
  const std::vector<std::pair<uint64_t, StatusCode>> expected = {{1, StatusCode::kNotAdmitted},
                                                                 {2, StatusCode::kDraining},
                                                                 {119, StatusCode::kOverQuota},
                                                                 {5, StatusCode::kUnsupportedKind},
                                                                 {9, StatusCode::kNotAdmitted}};
  EXPECT_EQ(refused, expected);
}

TEST_F(Refusals, PreviousKeyIsAcceptedAfterRotation) {
  tenant::Tenant rotated = default_tenant();
  rotated.previous_key = rotated.key;
  rotated.has_previous_key = true;
  rotated.key.epoch = 6;
  rotated.key.bytes[0] = std::byte{99};
  publish({rotated});
  send(one(request(1, 2)));
  run();
  const auto got = answers();  // the tag is checked against the old key
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
}

class AnswersStrangers : public Refusals {
  void configure() override { options.answer_bad_tags = true; }
};

TEST_F(AnswersStrangers, WithNoMoreThanTheirDatagrams) {
  wire::Header unknown = request(1, 2);
  unknown.tenant_id = 8;
  wire::Header epoch = request(2, 2);
  epoch.key_epoch = 4;
  Bytes bad_tag = one(request(3, 2));
  bad_tag[wire::kHeaderBytes] ^= std::byte{1};
  const std::pair<Bytes, StatusCode> cases[] = {{one(unknown), StatusCode::kUnknownTenant},
                                                {one(epoch), StatusCode::kBadEpoch},
                                                {bad_tag, StatusCode::kBadTag}};
  for (const auto& [datagram, status] : cases) {
    send(datagram);
    run();
    const auto got = answers();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].header.status, status);
    EXPECT_EQ(got[0].header.auth, wire::Auth::kNone);
    EXPECT_LE(wire::kHeaderBytes + got[0].payload.size(), datagram.size());
  }
}

// Later pieces of a refused request must not start it again and take contexts from other requests.
// A retry, which starts with the first piece, is checked again.
TEST_F(Refusals, LaterPiecesOfARefusedRequestAreDropped) {
  tenant::Tenant paused = default_tenant();
  paused.state = tenant::State::kPaused;
  publish({paused});
  const auto pieces = datagrams(request(1, 200), token_payload(100));
  send(pieces[0]);
  run();
  publish({default_tenant()});
  for (size_t i = 1; i < pieces.size(); ++i) send(pieces[i]);
  run();
  EXPECT_EQ(dropped(DropReason::kRefusedBefore), pieces.size() - 1);
  EXPECT_EQ(figures().contexts, 0u);
  answers();
  for (const Bytes& piece : pieces) send(piece);
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
}

TEST_F(Refusals, ContextsAreBounded) {
  for (uint64_t id = 1; id <= 300; ++id) send(datagrams(request(id, 200), token_payload(100))[0]);
  run();
  EXPECT_EQ(figures().contexts, 100u);
  EXPECT_EQ(dropped(DropReason::kTenantContextsFull), 200u);
  uint32_t overloaded = 0;
  for (const Answer& answer : answers())
    overloaded += answer.header.status == StatusCode::kOverloaded;
  EXPECT_EQ(overloaded, 200u);
}

// A request is refused at once, with a time to retry, if the backlog takes longer than the longest
// wait.
TEST_F(Refusals, ABacklogBeyondTheLongestWaitIsRefused) {
  group->cost_ns_per_token = 1'000'000;  // 1 ms: 1 s of waiting is 1,000 tokens
  group->clock = &clock;
  // Batches of several sizes give an estimate of the pace; the very first counts as a cold start.
  for (const uint32_t tokens : {100u, 20u, 300u}) {
    for (const Bytes& piece : datagrams(request(tokens, 2 * tokens), token_payload(tokens)))
      send(piece);
    run();
  }
  answers();
  for (uint64_t id = 1000; id < 1050; ++id)
    for (const Bytes& piece : datagrams(request(id, 200), token_payload(100))) send(piece);
  for (int i = 0; i < 8; ++i) poll_worker();
  stage->poll();
  poll_worker();
  uint32_t overloaded = 0;
  for (const Answer& answer : answers()) {
    if (answer.header.status != StatusCode::kOverloaded) continue;
    ++overloaded;
    EXPECT_GT(answer.header.aux, 500'000u);
  }
  EXPECT_GE(overloaded, 36u);
  EXPECT_LE(overloaded, 42u);
}

// A cold first batch of one token once made 300 tokens look like seconds of work.
TEST_F(Refusals, ShortFirstBatchDoesNotSetThePace) {
  group->cost_ns_per_batch = 8'000'000;
  group->clock = &clock;
  send(one(request(1, 2)));
  run();
  answers();
  for (uint64_t id = 10; id < 30; ++id)
    for (const Bytes& piece : datagrams(request(id, 200), token_payload(100))) send(piece);
  for (int i = 0; i < 8; ++i) poll_worker();
  stage->poll();
  poll_worker();
  for (const Answer& answer : answers())
    EXPECT_NE(answer.header.status, StatusCode::kOverloaded) << answer.header.request_id;
}

// The request of a tenant that is removed meanwhile is still answered, with the tenant's key.
TEST_F(Refusals, RemovalDoesNotLoseAcceptedRequests) {
  send(one(request(1, 2)));
  poll_worker();
  publish({});
  EXPECT_EQ(lease->num_in_flight(), 1u);
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
  EXPECT_EQ(lease->num_in_flight(), 0u);
}

// Random and mutated datagrams, half requests, floods, time passing. TearDown checks that each
// datagram is accounted for and that no buffer, context or lease is left.
TEST_F(WorkerTest, RandomDatagramsLeakNothing) {
  Random random(17);
  uint64_t id = 1;
  for (int round = 0; round < 3000; ++round) {
    const Bytes payload = token_payload(1 + static_cast<uint32_t>(random.below(300)));
    wire::Header header = request(id += random.below(3), static_cast<uint32_t>(payload.size()));
    header.fragment_bytes = static_cast<uint16_t>(64 + 4 * random.below(8));
    if (random.below(4) == 0) header.budget_us = static_cast<uint32_t>(random.below(2000));
    for (Bytes piece : datagrams(header, payload)) {
      if (random.below(8) == 0) continue;  // lost
      if (random.below(6) == 0) {          // sealed again, so that the wrong field is authenticated
        wire::Header lie;
        std::memcpy(static_cast<void*>(&lie), piece.data(), sizeof lie);
        reinterpret_cast<uint8_t*>(&lie)[6 + random.below(60)] ^=
            static_cast<uint8_t>(1 << random.below(8));
        Bytes body(piece.begin() + 82, piece.end());
        lie.header_bytes = 82;
        wire::Key key = kKey;
        const auto tag = wire::compute_tag(key, lie, body);
        std::memcpy(piece.data(), &lie, sizeof lie);
        std::memcpy(piece.data() + wire::kHeaderBytes, tag.data(), 16);
      }
      if (random.below(6) == 0) piece.resize(random.below(piece.size() + 1));
      if (random.below(6) == 0 && !piece.empty())
        piece[random.below(piece.size())] ^= static_cast<std::byte>(1u << random.below(8));
      send(piece);
    }
    if (random.below(3) == 0) worker->poll();
    if (random.below(5) == 0) stage->poll();
    clock.advance_ns(random.below(2'000'000));
    if (round % 8 == 0) {
      run();
      answers();
    }
  }
  run();
  EXPECT_GT(figures().responses, 100u);
  EXPECT_GT(figures().total_dropped(), 100u);
}

}  // namespace
}  // namespace itif::pipeline::test
