// An attacker records the server's datagrams and sends them again while their request is open. The
// client must not notice.
#include <gtest/gtest.h>

#include "client/engine.h"
#include "client/newest_sequence.h"
#include "tests/unit/client/world.h"

namespace itif::client::test {
namespace {

constexpr uint64_t kEveryNs = 1'000'000;  // between two replays
constexpr size_t kFull = 1;               // credential that demands full tags

class Replays : public ::testing::Test {
 protected:
  Replays() {
    world.network.set_server_tap([this](uint32_t, const Bytes& bytes) {
      wire::Datagram datagram;
      EXPECT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
      if (!replaying_) {
        if (datagram.header.type == recorded_type) recorded.push_back(bytes);
        if (loses && loses(datagram.header)) return false;
      }
      return true;
    });
  }
  uint64_t submit(const Order& order, size_t bytes) {
    return world.submit(order, bytes, world.credentials[kFull]);
  }
  void warm_up() {
    submit({.seed = 12345}, 64);
    world.run();
  }
  // Runs until the request has ended. Sends all recorded datagrams again every millisecond.
  const Ended& run_with_replays(uint64_t tag) {
    uint64_t next_ns = world.clock.now_ns();
    while (world.engine->in_flight() > 0) {
      if (world.clock.now_ns() >= next_ns) {
        next_ns = world.clock.now_ns() + kEveryNs;
        replaying_ = true;
        for (const Bytes& bytes : recorded) world.network.send_to_client(0, bytes);
        replaying_ = false;
      }
      world.engine->poll();
      world.clock.advance_ns(20'000);
      world.network.deliver_to_server();
      world.server.poll();
    }
    return world.ended(tag);
  }
  const EngineStats& stats() const { return world.engine->stats(); }
  uint64_t num_replayed() const { return stats().dropped[static_cast<size_t>(Drop::kReplayed)]; }

  World world{{}};
  wire::Type recorded_type = wire::Type::kBusy;
  std::vector<Bytes> recorded;
  std::function<bool(const wire::Header&)> loses;  // of the server's own datagrams
  uint64_t forged_tokens = 0;

 private:
  bool replaying_ = false;
};

// Each replay made the client send the pieces again: 90 bytes brought 100 KB.
TEST_F(Replays, AResendDoesNotMakeTheClientFloodTheServer) {
  warm_up();
  recorded_type = wire::Type::kResend;
  // Half of the pieces are lost; the server asks for them.
  world.network.set_faults({.loss = 0.5});
  const uint64_t tag = submit({.seed = 1, .service_us = 400'000}, 100'000);
  world.engine->flush();
  world.network.set_faults({});
  const uint64_t sent = stats().datagrams_sent;
  EXPECT_EQ(run_with_replays(tag).kind, OutcomeKind::kAnswered);
  ASSERT_FALSE(recorded.empty());
  EXPECT_LE(stats().datagrams_sent - sent, 200u) << "74 pieces";
  EXPECT_GT(num_replayed(), 100u);
}

// The answer is lost. Each replay restarted the wait before the repeat, up to the timeout.
TEST_F(Replays, ABusyDoesNotKeepTheClientWaiting) {
  warm_up();
  loses = [lost = false](const wire::Header& header) mutable {
    return header.type == wire::Type::kResponse && !std::exchange(lost, true);
  };
  const uint64_t tag = submit({.seed = 1, .service_us = 200'000}, 64);
  const Ended& ended = run_with_replays(tag);
  ASSERT_FALSE(recorded.empty());
  EXPECT_EQ(ended.kind, OutcomeKind::kAnswered);
  EXPECT_LE(ended.outcome.completed_ns - ended.outcome.submitted_ns, 1'500'000'000u);
  EXPECT_GT(num_replayed(), 100u);
}

// The server ran the request twice. Pieces of the first run made the client forget the second's.
TEST_F(Replays, PiecesOfAnEarlierRunDoNotDisplaceThoseOfTheLast) {
  warm_up();
  recorded_type = wire::Type::kResponse;
  world.network.set_faults({.jitter_ns = 5'000'000});
  const uint64_t tag = submit({.seed = 1, .response_bytes = 50'000}, 64);
  world.server.forget_after_pieces = 20;
  while (recorded.size() < 20) world.step();
  recorded_type = wire::Type::kBusy;
  const Ended& ended = run_with_replays(tag);
  EXPECT_EQ(ended.kind, OutcomeKind::kAnswered);
  EXPECT_EQ(ended.result, make_response({.seed = 1, .response_bytes = 50'000}));
  EXPECT_EQ(world.server.executed, 3u);
  EXPECT_LE(ended.outcome.completed_ns - ended.outcome.submitted_ns, 1'000'000'000u);
}

// A later token of the server was replaced by an earlier one, and the request sent again.
TEST_F(Replays, AnOldTokenDoesNotReplaceANewOne) {
  warm_up();
  recorded_type = wire::Type::kStatus;
  world.server.change_secret();  // the token is no longer valid
  const uint64_t tag = submit({.seed = 1, .service_us = 2'000'000}, 64);
  while (recorded.empty()) world.step();
  world.server.change_secret();
  const uint64_t refusals = stats().token_refusals;
  EXPECT_EQ(run_with_replays(tag).kind, OutcomeKind::kAnswered);
  EXPECT_LE(stats().token_refusals, refusals + 4);
  EXPECT_GT(num_replayed(), 100u);
}

// The server signs token_required for everybody who sends a captured request, with a token for the
// sender's address. Each such status made the client send the whole request again.
TEST_F(Replays, ATokenForAnotherAddressIsNotTaken) {
  warm_up();
  std::vector<Bytes> captured;
  world.network.set_tap([&captured](uint32_t, const Bytes& bytes) {
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.type == wire::Type::kRequest && datagram.header.offset == 0)
      captured.push_back(bytes);
  });
  world.network.set_server_tap([this](uint32_t flow, const Bytes& bytes) {
    if (flow != 0) world.network.send_to_client(0, bytes);
    return flow == 0;
  });
  const EngineStats before = stats();
  const uint64_t tag = submit({.seed = 1, .service_us = 500'000}, 100'000);
  uint32_t attacker = 100;
  while (world.engine->in_flight() > 0) {
    world.engine->poll();
    world.clock.advance_ns(1'000'000);
    if (!captured.empty()) world.server.on_datagram(attacker++, captured.back());
    world.network.deliver_to_server();
    world.server.poll();
  }
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_GT(stats().token_refusals, 300u);
  const uint64_t hellos = stats().hellos - before.hellos;
  EXPECT_LE(hellos, attacker - 100);
  EXPECT_LE(stats().datagrams_sent - before.datagrams_sent - hellos, 100u) << "87 pieces";
}

// The attacker answers each hello before the server does, with a token that the server refuses.
TEST_F(Replays, AForgedTokenDoesNotKeepTheClientOut) {
  world.network.set_tap([this](uint32_t, const Bytes& bytes) {
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.type != wire::Type::kHello) return;
    wire::Header forged = wire::reply_header(datagram.header, wire::Type::kToken);
    forged.token = ++forged_tokens;
    Bytes reply(wire::header_size(forged.auth));
    ASSERT_EQ(wire::build(forged, {}, {}, reply), reply.size());
    world.network.send_to_client(0, reply);
  });
  for (uint32_t i = 0; i < 20; ++i) {
    const uint64_t tag = submit({.seed = i}, 5000);
    world.run();
    EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
    EXPECT_LE(world.ended(tag).outcome.tries, 3u);
    world.clock.advance_ns(100'000'000);  // 2 s in total, five lifetimes of a token
  }
  EXPECT_GT(forged_tokens, 3u);
}

// Another process begins another count, perhaps a lower one.
TEST_F(Replays, ARestartedServerIsHeard) {
  for (const uint64_t first : {uint64_t{1} << 63, uint64_t{1} << 62, ~uint64_t{0} - 3}) {
    warm_up();
    const uint64_t tag = submit({.seed = 1, .response_bytes = 5000, .service_us = 300'000}, 64);
    while (stats().busy == 0) world.step();
    world.server.restart(first);
    world.run();
    EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered) << first;
    EXPECT_EQ(num_replayed(), 0u) << first;
  }
}

TEST(NewestSequence, FollowsTwoCounts) {
  NewestSequence newest;
  constexpr uint64_t kOld = uint64_t{1} << 62, kNew = uint64_t{1} << 50;
  EXPECT_TRUE(newest.advance(kOld));
  EXPECT_FALSE(newest.advance(kOld));
  EXPECT_TRUE(newest.advance(kOld + 2));
  EXPECT_FALSE(newest.advance(kOld + 1)) << "late";
  EXPECT_TRUE(newest.advance(kNew));
  EXPECT_FALSE(newest.advance(kNew));
  EXPECT_FALSE(newest.advance(kOld + 2)) << "both counts are followed";
  EXPECT_TRUE(newest.advance(kOld + 3));
  EXPECT_FALSE(newest.advance(kNew - 500));
  EXPECT_TRUE(newest.advance(~uint64_t{0}));
  EXPECT_TRUE(newest.advance(0)) << "the count goes on after its largest number";
  EXPECT_FALSE(newest.advance(~uint64_t{0}));
}

}  // namespace
}  // namespace itif::client::test
