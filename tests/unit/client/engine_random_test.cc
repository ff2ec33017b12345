// Thousands of seeded runs that combine loss, reordering, duplication, damage, a blocking
// transport, tokens, refusals and slow servers. Every request must end exactly once, with the right
// bytes. It must be answered if the network delivers some datagrams.
#include <gtest/gtest.h>

#include "tests/unit/client/world.h"

namespace itif::client::test {
namespace {

struct Expected {
  Order order;
  Credential credential;
};

void check_accounts(const World& world, size_t num_requests) {
  const EngineStats& stats = world.engine->stats();
  EXPECT_EQ(stats.submitted, num_requests);
  EXPECT_EQ(stats.answered + stats.refused + stats.lost + stats.cancelled, num_requests);
  uint64_t dropped = 0;
  for (uint64_t count : stats.dropped) dropped += count;
  EXPECT_EQ(stats.datagrams_received, stats.datagrams_used + dropped);
  EXPECT_EQ(world.num_ended(), num_requests);
  EXPECT_EQ(world.engine->in_flight(), 0u);
  EXPECT_FALSE(world.engine->has_unsent());
}

void run_one(uint64_t seed, bool damage) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random choose(seed);
  WorldOptions options;
  options.seed = seed;
  options.num_flows = 1 + static_cast<uint32_t>(choose.below(4));
  options.faults.loss = choose.uniform() * 0.3;
  options.faults.duplication = choose.uniform() * 0.3;
  options.faults.jitter_ns = choose.below(2) ? choose.below(8'000'000) : 0;
  options.faults.blocked = choose.below(2) ? 0.5 : 0;
  options.faults.corruption = damage ? choose.uniform() * 0.3 : 0;
  options.engine.fragment_bytes = 64 + 4 * static_cast<uint32_t>(choose.below(400));
  options.engine.max_in_flight = 64;
  options.engine.burst_datagrams = 1 + static_cast<uint32_t>(choose.below(100));
  options.engine.retry = {.max_tries = 40,
                          .initial_rto_ns = 1'000'000 + choose.below(20'000'000),
                          .max_rto_ns = 100'000'000,
                          .timeout_ns = 300'000'000'000,
                          .max_refusal_retries = 2};
  options.server.fragment_bytes = 64 + 4 * static_cast<uint32_t>(choose.below(400));
  // Often short, so that tokens expire while requests are in flight.
  options.server.token_life_ns = 50'000'000 + choose.below(2'000'000'000);
  options.server.context_life_ns = 400'000'000'000;
  World world(options);

  std::map<uint64_t, Expected> expected;
  const size_t num_requests = 1 + choose.below(20);
  for (size_t i = 0; i < num_requests; ++i) {
    Expected e;
    e.order = {.seed = static_cast<uint32_t>(seed * 1000 + i),
               .response_bytes = static_cast<uint32_t>(choose.below(choose.below(3) ? 200 : 9000)),
               .service_us = static_cast<uint32_t>(choose.below(50'000))};
    if (choose.below(5) == 0) e.order.status = static_cast<uint32_t>(1 + choose.below(6));
    if (choose.below(5) == 0) e.order.overloaded = static_cast<uint32_t>(choose.below(4));
    // With damage, use the tenants whose tag covers the payload. Only UDP's checksum guards the
    // others.
    e.credential = world.credentials[damage ? 1 + 2 * choose.below(2) : choose.below(4)];
    const size_t bytes = choose.below(choose.below(3) ? 200 : 9000);
    expected[world.submit(e.order, bytes, e.credential)] = e;
    for (uint64_t steps = choose.below(4); steps > 0; --steps) world.step();
  }
  world.run();

  for (const auto& [tag, e] : expected) {
    const Ended& end = world.ended(tag);
    if (e.order.overloaded > 2) {
      EXPECT_EQ(end.kind, OutcomeKind::kRefused);
      EXPECT_EQ(end.outcome.status, wire::StatusCode::kOverloaded);
    } else if (e.order.status != 0) {
      EXPECT_EQ(end.kind, OutcomeKind::kRefused);
      EXPECT_EQ(end.outcome.status, static_cast<wire::StatusCode>(e.order.status));
    } else {
      EXPECT_EQ(end.kind, OutcomeKind::kAnswered);
      EXPECT_EQ(end.result, make_response(e.order));
    }
  }
  EXPECT_EQ(world.server.wrong_payloads, 0u);
  check_accounts(world, num_requests);
}

TEST(ClientEngineRandom, EveryRequestEndsOnceWithTheRightResult) {
  for (uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed)
    run_one(seed, false);
}

TEST(ClientEngineRandom, DamagedDatagramsDoNotChangeResults) {
  for (uint64_t seed = 1; seed <= 1000 && !testing::Test::HasFailure(); ++seed) run_one(seed, true);
}

// Impatient policies, networks that lose nearly all datagrams, and noise. Requests may stay
// unanswered, but each must end.
TEST(ClientEngineRandom, EveryRequestEndsUnderExtremeFaults) {
  for (uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random choose(seed);
    WorldOptions options;
    options.seed = seed;
    options.num_flows = 1 + static_cast<uint32_t>(choose.below(3));
    options.faults.loss = choose.uniform();
    options.faults.duplication = choose.uniform() * 0.5;
    options.faults.jitter_ns = choose.below(100'000'000);
    options.faults.corruption = choose.uniform();
    options.faults.blocked = choose.uniform() * 0.9;
    options.engine.max_in_flight = 32;
    options.engine.fragment_bytes = 64;
    options.engine.max_reassembly_bytes = choose.below(20'000);
    options.engine.retry = {.max_tries = 1 + static_cast<uint32_t>(choose.below(4)),
                            .initial_rto_ns = 1 + choose.below(30'000'000),
                            .backoff_percent = static_cast<uint32_t>(choose.below(400)),
                            .timeout_ns = 1 + choose.below(500'000'000),
                            .resend_after_ns = choose.below(10'000'000),
                            .max_refusal_retries = static_cast<uint32_t>(choose.below(3))};
    options.server.token_life_ns = 10'000'000 + choose.below(500'000'000);
    World world(options);
    world.network.set_corrupt([&](Bytes& bytes) {
      switch (choose.below(4)) {
        case 0: bytes.resize(choose.below(bytes.size() + 1)); break;
        case 1: bytes.resize(bytes.size() + choose.below(100)); break;
        default:
          for (uint64_t i = 1 + choose.below(8); i > 0 && !bytes.empty(); --i)
            bytes[choose.below(std::min<size_t>(bytes.size(), 66))] =
                static_cast<std::byte>(choose.next());
      }
    });
    const size_t num_requests = 1 + choose.below(20);
    for (size_t i = 0; i < num_requests; ++i) {
      world.submit({.seed = static_cast<uint32_t>(i),
                    .response_bytes = static_cast<uint32_t>(choose.below(3000)),
                    .service_us = static_cast<uint32_t>(choose.below(100'000)),
                    .overloaded = static_cast<uint32_t>(choose.below(2))},
                   choose.below(2000), world.credentials[choose.below(4)]);
      world.step();
    }
    if (choose.below(4) == 0) {
      for (int i = 0; i < 5; ++i) world.step();
      world.engine->cancel_all();
    }
    world.run();
    check_accounts(world, num_requests);
  }
}

}  // namespace
}  // namespace itif::client::test
