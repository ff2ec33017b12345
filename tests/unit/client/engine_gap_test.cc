// Missing pieces of responses: how long ClientEngine waits before it asks for them.
#include <gtest/gtest.h>

#include "client/engine.h"
#include "tests/unit/client/world.h"

namespace itif::client::test {
namespace {

// 40 ms and more there and back.
constexpr NetworkFaults kLongPath{.min_delay_ns = 20'000'000};
constexpr NetworkFaults kReordering{.min_delay_ns = 20'000'000, .jitter_ns = 8'000'000};
constexpr uint32_t kResponseBytes = 5000;  // four pieces

class LongPath : public ::testing::Test {
 protected:
  explicit LongPath(const NetworkFaults& faults = kLongPath) {
    WorldOptions options;
    options.faults = faults;
    options.server.token_life_ns = 600'000'000'000;
    world = std::make_unique<World>(options);
    world->network.set_server_tap([this](uint32_t, const Bytes& bytes) { return passes(bytes); });
  }
  uint64_t ask() { return world->submit({.seed = next_++, .response_bytes = kResponseBytes}, 64); }
  const Outcome& answer() {
    const uint64_t tag = ask();
    world->run();
    return world->ended(tag).outcome;
  }
  uint64_t latency_ns() {
    const Outcome& outcome = answer();
    EXPECT_EQ(outcome.kind, OutcomeKind::kAnswered);
    return outcome.completed_ns - outcome.submitted_ns;
  }
  const EngineStats& stats() const { return world->engine->stats(); }

  std::unique_ptr<World> world;
  uint32_t lose_offset = 0;  // the next piece there is lost; 0: none

 private:
  bool passes(const Bytes& bytes) {
    wire::Datagram datagram;
    if (lose_offset == 0 || wire::parse(bytes, datagram) != wire::ParseError::kNone ||
        datagram.header.type != wire::Type::kResponse || datagram.header.offset != lose_offset)
      return true;
    lose_offset = 0;
    return false;
  }

  uint32_t next_ = 1;
};

class ReorderingPath : public LongPath {
 protected:
  explicit ReorderingPath() : LongPath(kReordering) {}
};

// The pieces arrive up to 8 ms apart.
TEST_F(ReorderingPath, PiecesOnTheirWayAreNotAskedFor) {
  for (int i = 0; i < 500; ++i) answer();
  EXPECT_EQ(stats().answered, 500u);
  EXPECT_EQ(stats().resends_asked, 0u);
  EXPECT_EQ(stats().retransmissions, 0u);
  EXPECT_EQ(stats().datagrams_received, 2000 + stats().hellos) << "each piece once";
}

// The path reorders more than expected. The first responses show that.
TEST_F(ReorderingPath, TheGapFollowsWhatThePathReorders) {
  world->network.set_faults({.min_delay_ns = 20'000'000, .jitter_ns = 35'000'000});
  for (int i = 0; i < 20; ++i) answer();
  const uint64_t before = stats().resends_asked;
  for (int i = 0; i < 500; ++i) answer();
  EXPECT_LE(stats().resends_asked - before, 25u);
  EXPECT_EQ(stats().answered, 520u);
}

TEST_F(LongPath, ALostPieceComesAboutOneRoundTripLater) {
  answer();
  const uint64_t usual_ns = latency_ns();
  for (const uint32_t offset : {1368u, 2736u, 4104u}) {
    lose_offset = offset;
    const uint64_t asked = stats().resends_asked, received = stats().datagrams_received;
    const uint64_t sent = stats().datagrams_sent;
    EXPECT_LE(latency_ns(), usual_ns + 52'000'000) << offset;  // 40 ms, after a gap of 10
    EXPECT_EQ(stats().resends_asked, asked + 1);
    EXPECT_EQ(stats().datagrams_sent, sent + 3) << "the request, one ask, the ack";
    EXPECT_LE(stats().datagrams_received, received + 4);
  }
  EXPECT_EQ(stats().retransmissions, 0u);
}

// A single piece is lost on a path that reorders: its answer is waited for, whatever else arrives.
TEST_F(ReorderingPath, ALostPieceIsAskedForOnce) {
  answer();
  for (int i = 0; i < 200; ++i) {
    lose_offset = i % 2 == 0 ? 1368 : 2736;
    EXPECT_LE(latency_ns(), 2 * 56'000'000u + 25'000'000) << i;
  }
  EXPECT_EQ(stats().resends_asked, 200u);
  EXPECT_EQ(stats().retransmissions, 0u);
}

// The ask is lost, too.
TEST_F(LongPath, ALostAskIsRepeatedAfterItsRto) {
  answer();
  lose_offset = 1368;
  const uint64_t tag = ask(), asked = stats().resends_asked;
  const uint64_t received = stats().datagrams_received;
  while (stats().datagrams_received < received + 3) world->step();
  world->network.set_faults({.loss = 1});
  while (stats().resends_asked == asked) world->step();
  world->network.set_faults(kLongPath);
  world->run();
  const Outcome& outcome = world->ended(tag).outcome;
  EXPECT_EQ(outcome.kind, OutcomeKind::kAnswered);
  EXPECT_EQ(stats().retransmissions, 1u) << "the second try repeats the request";
  EXPECT_LE(outcome.completed_ns - outcome.submitted_ns, 250'000'000u);
}

// The first hello took long, as while a neighbour is looked up: answers show the true round trip.
TEST_F(LongPath, AnswersCorrectTheRoundTripOfASlowHello) {
  world->network.set_faults({.min_delay_ns = 400'000'000});
  const uint64_t tag = ask();
  while (stats().tokens == 0) world->step();
  world->network.set_faults(kLongPath);
  world->run();
  EXPECT_EQ(world->ended(tag).kind, OutcomeKind::kAnswered);
  for (int i = 0; i < 30; ++i) answer();
  const uint64_t usual_ns = latency_ns();
  lose_offset = 1368;
  EXPECT_LE(latency_ns(), usual_ns + 60'000'000);
}

TEST(ShortPath, TheGapKeepsItsFloor) {
  World world({});
  world.warm_up();
  world.network.set_server_tap([lost = false](uint32_t, const Bytes& bytes) mutable {
    wire::Datagram datagram;
    EXPECT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    return datagram.header.offset != 1368 || std::exchange(lost, true);
  });
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = kResponseBytes}, 64);
  world.run();
  const Outcome& outcome = world.ended(tag).outcome;
  EXPECT_EQ(outcome.kind, OutcomeKind::kAnswered);
  EXPECT_GE(outcome.completed_ns - outcome.submitted_ns, 5'000'000u);
  EXPECT_LE(outcome.completed_ns - outcome.submitted_ns, 5'500'000u);
}

}  // namespace
}  // namespace itif::client::test
