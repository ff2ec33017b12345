// Attackers' captures: nothing that was captured runs or draws an answer again, from any address,
// after any time, and no address gets more bytes than it sent before it is proven.
#include <gtest/gtest.h>

#include <cstring>

#include "request_frame.h"
#include "worker_fixture.h"

namespace itif::pipeline::test {
namespace {

using net::DropReason;
using wire::StatusCode;
using wire::Type;

class Replays : public WorkerTest {
 protected:
  void configure() override { options.sessions.max_sessions = 64; }
  Bytes one(uint64_t id, uint64_t sequence) {
    wire::Header header = request(id, 2);
    header.sequence = sequence;
    return datagrams(header, token_payload({9}))[0];
  }
  // The bytes in a frame from another address.
  Bytes frame_from(const Bytes& datagram, uint8_t last) {
    Bytes frame = ipv4_frame(datagram, worker->port().info().mac);
    // RFC 1624: the checksum's complement changes by the difference.
    const int was = std::to_integer<int>(frame[29]);
    frame[29] = std::byte{last};
    unsigned sum =
        ~(std::to_integer<unsigned>(frame[24]) << 8 | std::to_integer<unsigned>(frame[25])) &
        0xffff;
    sum += static_cast<unsigned>(last - was + 0xffff);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    sum = ~sum & 0xffff;
    frame[24] = static_cast<std::byte>(sum >> 8);
    frame[25] = static_cast<std::byte>(sum);
    return frame;
  }
  // A client's resend for the first `bytes` of a response.
  Bytes resend_of(const Answer& answer, uint32_t bytes) {
    wire::Header resend = request(answer.header.request_id, answer.header.total_bytes);
    resend.auth = answer.header.auth;
    resend.type = Type::kResend;
    resend.flags = wire::kFlagOfResponse;
    resend.payload_kind = wire::PayloadKind::kNone;
    resend.fragment_bytes = answer.header.fragment_bytes;
    resend.sequence = 2'000'000'000;
    const wire::Range range{0, bytes};
    Bytes payload(8);
    EXPECT_EQ(wire::build_ranges({&range, 1}, answer.header.total_bytes, payload), 8u);
    return seal(resend, payload);
  }
  size_t bytes_of(const std::vector<Bytes>& frames) {
    size_t sum = 0;
    for (const Bytes& frame : frames) sum += frame.size();
    return sum;
  }
};

TEST_F(Replays, ACapturedRequestRunsOnce) {
  const Bytes captured = one(1, 1000);
  replay(captured);
  run();
  EXPECT_EQ(answers().size(), 1u);
  for (int i = 0; i < 3; ++i) {
    replay(captured);
    run();
    clock.advance_ns(3'000'000'000);  // the cached answer is forgotten
  }
  EXPECT_EQ(sent_frames().size(), 0u);
  EXPECT_EQ(dropped(DropReason::kReplayed), 3u);
  clock.advance_ns(2 * kTokenPeriodNs);  // the session, too
  for (int i = 0; i < 200; ++i) {
    clock.advance_ns(1'000'000);
    poll_worker();
  }
  replay(captured);
  run();
  EXPECT_EQ(group->batches, 1u);
  EXPECT_EQ(dropped(DropReason::kTokenRequired), 1u);
  const auto frames = sent_frames();
  EXPECT_EQ(frames.size(), 1u);
  EXPECT_LE(bytes_of(frames), kFrameHeaders + captured.size());
}

TEST_F(Replays, ACapturedRequestDoesNotRunForAnotherAddress) {
  const Bytes captured = one(1, 1000);
  send_frame(frame_from(captured, 99));
  run();
  EXPECT_EQ(group->batches, 0u);
  const auto frames = sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_LE(frames[0].size(), kFrameHeaders + captured.size());
  EXPECT_EQ(dropped(DropReason::kTokenRequired), 1u);
  replay(captured);  // the victim's own still runs: a stranger's copy uses up nothing
  run();
  EXPECT_EQ(group->batches, 1u);
}

TEST_F(Replays, ACapturedRequestDoesNotRunAfterARestart) {
  const Bytes captured = one(1, 1000);
  shared->token_secret[0] ^= std::byte{1};  // as every process has its own
  replay(captured);
  run();
  EXPECT_EQ(group->batches, 0u);
  EXPECT_EQ(dropped(DropReason::kTokenRequired), 1u);
}

// 3,639 times its bytes were once drawn by one captured datagram.
TEST_F(Replays, ACapturedResendDrawsNothing) {
  group->per_token = 300;
  send(datagrams(request(1, 40), token_payload(20))[0]);
  run();
  const auto got = answers();
  const Bytes captured = resend_of(got[0], got[0].header.total_bytes);
  replay(captured);
  run();
  EXPECT_EQ(answers().size(), got.size());
  for (int i = 0; i < 100; ++i) replay(captured);
  for (uint8_t last = 10; last < 20; ++last) send_frame(frame_from(captured, last));
  run();
  EXPECT_TRUE(sent_frames().empty());
  EXPECT_EQ(dropped(DropReason::kReplayed), 100u);
  EXPECT_EQ(dropped(DropReason::kTokenRequired), 10u);
}

// Under `header`, the ranges of a resend were once outside the tag.
TEST_F(Replays, RangesOfAResendAreUnderTheHeaderTag) {
  group->per_token = 300;
  send(datagrams(request(1, 40), token_payload(20))[0]);
  run();
  const auto got = answers();
  Bytes altered = resend_of(got[0], 4);
  altered[altered.size() - 3] = std::byte{1};  // the range's length
  replay(altered);
  run();
  EXPECT_TRUE(sent_frames().empty());
  EXPECT_EQ(dropped(DropReason::kBadTag), 1u);
}

// A client that holds the key may repeat itself with new numbers, but not draw an answer without
// end, nor have it sent twice at the same time.
TEST_F(Replays, AnAnswerIsSentABoundedNumberOfTimes) {
  group->per_token = 300;
  const Bytes first = datagrams(request(1, 40), token_payload(20))[0];
  send(first);
  run();
  const size_t pieces = answers().size();
  ASSERT_GT(pieces, 10u);
  send(first);
  send(first);
  run();
  EXPECT_EQ(dropped(DropReason::kAlreadySending), 1u);
  EXPECT_EQ(answers().size(), pieces);
  size_t sent = pieces;
  for (int i = 0; i < 40; ++i) {
    send(first);
    run();
    sent += answers().size();
  }
  EXPECT_GE(sent, 7 * pieces);
  EXPECT_LE(sent, 9 * pieces);
  EXPECT_GT(dropped(DropReason::kAnswerBudget), 30u);
  EXPECT_EQ(group->batches, 1u);
}

TEST_F(Replays, HalfSentRequestsDrawNoMoreThanTheySent) {
  const auto pieces = datagrams(request(1, 200), token_payload(100));
  const Bytes frame = frame_from(pieces[0], 99);  // a token of another address
  for (int i = 0; i < 50; ++i) send_frame(frame);
  run();
  clock.advance_ns(1'000'000'000);
  run();
  EXPECT_EQ(figures().contexts, 0u);
  EXPECT_LE(bytes_of(sent_frames()), 50 * frame.size());
}

// The quota was once charged for requests that never became complete, and for captured ones.
TEST_F(Replays, OnlyWholeFreshRequestsUseQuota) {
  tenant::Tenant limited = default_tenant();
  limited.quota_rps = 10;
  publish({limited});
  const Bytes captured = one(1, 1000);
  replay(captured);
  for (int i = 0; i < 50; ++i) replay(captured);
  for (uint64_t id = 100; id < 140; ++id) send(datagrams(request(id, 200), token_payload(100))[1]);
  run();
  answers();
  uint32_t answered = 0;
  for (uint64_t id = 2; id < 12; ++id) {
    send(one(id, 0));
    run();
    for (const Answer& answer : answers()) answered += answer.header.type == Type::kResponse;
  }
  EXPECT_EQ(answered, 7u);  // the burst of 8 less the first
}

// A request that becomes complete when the quota is used up is refused then.
TEST_F(Replays, QuotaIsChargedWhenARequestIsComplete) {
  tenant::Tenant limited = default_tenant();
  limited.quota_rps = 10;
  publish({limited});
  const auto pieces = datagrams(request(50, 200), token_payload(100));
  send(pieces[0]);
  for (uint64_t id = 1; id <= 8; ++id) send(one(id, 0));
  run();
  answers();
  for (size_t i = 1; i < pieces.size(); ++i) send(pieces[i]);
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.status, StatusCode::kOverQuota);
  EXPECT_GT(got[0].header.aux, 0u);
  EXPECT_EQ(dropped(DropReason::kOverQuota), pieces.size());
}

TEST_F(Replays, TokenRequiredCarriesAUsableToken) {
  wire::Header header = request(1, 2);
  header.token = 0;
  header.sequence = 1;
  replay(datagrams(header, token_payload({9}))[0]);
  run();
  auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.status, StatusCode::kTokenRequired);
  EXPECT_NE(got[0].header.auth, wire::Auth::kNone);
  header.token = got[0].header.token;
  header.sequence = 2;
  replay(datagrams(header, token_payload({9}))[0]);
  run();
  got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
  // Another session's token.
  header.session = 78;
  header.request_id = 2;
  replay(datagrams(header, token_payload({9}))[0]);
  run();
  EXPECT_EQ(dropped(DropReason::kTokenRequired), 2u);
  answers();
}

TEST_F(Replays, TokensOfTheLastPeriodAreValidAndOlderOnesAreNot) {
  wire::Header header = request(1, 2);
  const auto ask = [&] {
    ++header.request_id;
    ++header.sequence;
    replay(datagrams(header, token_payload({9}))[0]);
    run();
    const auto got = answers();
    return got.size() == 1 && got[0].header.type == Type::kResponse;
  };
  EXPECT_TRUE(ask());
  clock.advance_ns(kTokenPeriodNs);
  EXPECT_TRUE(ask());
  clock.advance_ns(kTokenPeriodNs);
  EXPECT_FALSE(ask());
  header.token = token_of(header.session);
  EXPECT_TRUE(ask()) << "a new token continues the session";
}

class FewSessions : public Replays {
  void configure() override { options.sessions.max_sessions = 16; }
};

TEST_F(FewSessions, ANewClientIsRefusedWhenAllAreInUse) {
  uint32_t answered = 0, overloaded = 0;
  for (uint32_t session = 1; session <= 12; ++session) {
    wire::Header header = request(1, 2);
    header.session = session;
    header.token = token_of(session);
    send(datagrams(header, token_payload({9}))[0]);
    run();
    for (const Answer& answer : answers()) {
      answered += answer.header.type == Type::kResponse;
      overloaded += answer.header.status == StatusCode::kOverloaded;
    }
  }
  EXPECT_EQ(answered, 8u);
  EXPECT_EQ(overloaded, 4u);
  EXPECT_EQ(dropped(DropReason::kSessionsFull), 4u);
}

class FewReplies : public Replays {
  void configure() override { options.max_unproven_replies = 100; }
};

TEST_F(FewReplies, RepliesToUnprovenAddressesAreLimited) {
  wire::Header hello;
  hello.type = Type::kHello;
  for (int i = 0; i < 100; ++i) send(seal(hello, {}));
  run();
  EXPECT_LE(answers().size(), 11u);
  EXPECT_GE(dropped(DropReason::kReplyRate), 89u);
}

TEST_F(Replays, SealedRequestsAreDecryptedInPlaceAndAnsweredSealed) {
  tenant::Tenant sealed = default_tenant();
  sealed.auth = static_cast<uint8_t>(wire::Auth::kSealed);
  publish({sealed});
  wire::Header header = request(1, 200);
  header.auth = wire::Auth::kSealed;
  header.sequence = 10;
  for (const Bytes& piece : datagrams(header, token_payload(100))) {
    replay(piece);
    Bytes altered = piece;
    altered.back() ^= std::byte{1};
    replay(altered);
  }
  // All pieces have the same number: only the first is accepted.
  run();
  EXPECT_EQ(dropped(DropReason::kBadTag) + dropped(DropReason::kReplayed), 7u);
  const Bytes payload = token_payload(100);
  for (uint32_t offset = 64; offset < 200; offset += 64) {
    wire::Header piece = header;
    piece.offset = offset;
    piece.sequence = 10 + offset;
    replay(seal(piece, std::span(payload).subspan(offset, std::min(64u, 200 - offset))));
  }
  run();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
  EXPECT_EQ(got[0].header.auth, wire::Auth::kSealed);
  send(one(2, 5000));  // weaker than the tenant demands
  run();
  EXPECT_EQ(dropped(DropReason::kBadAuth), 1u);
}

// A tenant of mode `none` has a client that protects its requests. Somebody without the key reads
// tenant, session and request id in its datagrams.
TEST_F(Replays, AProtectedRequestIsNotShownToAWeakerDatagram) {
  tenant::Tenant open = default_tenant();
  open.auth = static_cast<uint8_t>(wire::Auth::kNone);
  publish({open});
  for (const wire::Auth auth : {wire::Auth::kHeader, wire::Auth::kFull, wire::Auth::kSealed}) {
    const auto id = 10 + static_cast<uint64_t>(auth);
    wire::Header header = request(id, 200);
    header.auth = auth;
    const Bytes payload = token_payload(100);
    const auto send_pieces = [&](const wire::Header& of) {
      for (const Bytes& piece : datagrams(of, payload)) send(piece);
    };
    send_pieces(header);
    run();
    const auto own = answers();
    ASSERT_EQ(own.size(), 1u);
    EXPECT_EQ(own[0].header.auth, auth);

    for (int weaker = 0; weaker < static_cast<int>(auth); ++weaker) {
      const uint64_t before = dropped(DropReason::kBadAuth);
      wire::Header ask = header;
      ask.auth = static_cast<wire::Auth>(weaker);
      send(seal(ask, std::span(payload).first(64)));
      Answer about = own[0];
      about.header.auth = ask.auth;
      send(resend_of(about, own[0].header.total_bytes));
      wire::Header ack = ask;
      ack.type = Type::kAck;
      ack.payload_kind = wire::PayloadKind::kNone;
      ack.result_kind = wire::ResultKind::kDefault;
      ack.total_bytes = ack.offset = ack.budget_us = 0;
      ack.fragment_bytes = 0;
      send(seal(ack, {}));
      run();
      EXPECT_EQ(answers().size(), 0u) << weaker;
      EXPECT_EQ(dropped(DropReason::kBadAuth), before + 3) << weaker;
    }
    send(datagrams(header, payload)[0]);  // the client itself still gets its answer
    run();
    const auto again = answers();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].payload, own[0].payload);
    EXPECT_EQ(again[0].header.auth, auth);
  }
}

}  // namespace
}  // namespace itif::pipeline::test
