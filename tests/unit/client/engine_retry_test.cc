// Repeats of requests by ClientEngine, and when it gives up: silence, busy answers, refusals.
#include <gtest/gtest.h>

#include "client/engine.h"
#include "tests/unit/client/world.h"

namespace itif::client::test {
namespace {

TEST(ClientEngineRetries, RetransmitsAfterSilenceWithBackoff) {
  WorldOptions options;
  options.engine.retry = {.max_tries = 4, .initial_rto_ns = 10'000'000, .backoff_percent = 200};
  World world(options);
  world.warm_up();
  world.network.set_faults({.loss = 1});
  const uint64_t tag = world.submit({.seed = 1}, 64);
  world.run();
  const Outcome& outcome = world.ended(tag).outcome;
  EXPECT_EQ(outcome.kind, OutcomeKind::kLost);
  EXPECT_EQ(outcome.tries, 4u);
  EXPECT_EQ(world.engine->stats().retransmissions, 3u);
  const uint64_t waited_ns = outcome.completed_ns - outcome.submitted_ns;
  EXPECT_GE(waited_ns, 150'000'000u);  // 10 + 20 + 40 + 80 ms
  EXPECT_LE(waited_ns, 152'000'000u);
}

TEST(ClientEngineRetries, WithoutRetriesEachDatagramIsSentOnce) {
  WorldOptions options;
  options.engine.retry = RetryPolicy::none(300'000'000);
  World world(options);
  world.warm_up();
  const uint64_t sent = world.engine->stats().datagrams_sent;
  world.network.set_faults({.loss = 1});
  const uint64_t tag = world.submit({.seed = 1}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kLost);
  EXPECT_EQ(world.engine->stats().datagrams_sent, sent + 1);
  const Outcome& outcome = world.ended(tag).outcome;
  EXPECT_GE(outcome.completed_ns - outcome.submitted_ns, 300'000'000u);
}

TEST(ClientEngineRetries, BusyKeepsARequestAliveAndItRunsOnce) {
  WorldOptions options;
  options.engine.retry = {.max_tries = 2, .initial_rto_ns = 5'000'000};
  options.engine.retry.timeout_ns = 10'000'000'000;
  World world(options);
  // Service takes 900 ms; without busy answers the tries would be exhausted after 15 ms.
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 10, .service_us = 900'000}, 9000);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.server.executed, 1u);
  EXPECT_GT(world.engine->stats().busy, 5u);
}

// Service takes 3 s. A client that repeated its request every 50 ms would ask 60 times.
TEST(ClientEngineRetries, RepeatsOfABusyRequestBecomeRare) {
  for (const uint32_t busy_us : {0u, 400'000u, 4'000'000'000u}) {
    WorldOptions options;
    options.engine.retry.timeout_ns = 20'000'000'000;
    World world(options);
    world.server.busy_us = busy_us;
    const uint64_t tag = world.submit({.seed = 1, .service_us = 3'000'000}, 64);
    world.run();
    EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
    // The client asks again after 50 ms, then after 100, 200, … and at most 1,000 ms, but never
    // before the time that the server names, which counts up to 5 s.
    const uint64_t expected = busy_us == 0 ? 6 : busy_us == 400'000 ? 5 : 1;
    EXPECT_EQ(world.engine->stats().busy, expected) << busy_us;
    EXPECT_EQ(world.engine->stats().silence_repeats, 1u)
        << "silence made the first repeat, and busy the others";
    EXPECT_EQ(world.engine->stats().lost, 0u);
  }
}

// A loaded server answers late. Only the first request is repeated; the others wait as long as
// answers take.
TEST(ClientEngineRetries, TheRtoFollowsTheLatencyOfAnswers) {
  World world({});
  uint64_t repeats_of_the_first = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    world.submit({.seed = i, .service_us = 300'000}, 64);
    world.run();
    if (i == 0) repeats_of_the_first = world.engine->stats().retransmissions;
  }
  EXPECT_GT(repeats_of_the_first, 0u);
  EXPECT_EQ(world.engine->stats().retransmissions, repeats_of_the_first);
  EXPECT_EQ(world.engine->stats().answered, 20u);
}

// The load begins: 64 requests at once, answered in batches of 8 that take 200 ms each. The client
// knows neither. It repeats one request, which shows that the server is busy.
TEST(ClientEngineRetries, ALoadThatBeginsIsHardlyRepeated) {
  for (const uint32_t busy_us : {0u, 1'000'000u}) {
    World world({});
    world.server.busy_us = busy_us;
    uint32_t next = 0;
    const auto submit = [&](uint32_t place) {
      world.submit({.seed = next++, .service_us = 200'000 * (place / 8 + 1)}, 64);
    };
    for (uint32_t i = 0; i < 64; ++i) submit(i);
    while (next < 640) {  // a new request for each that is answered
      world.step();
      while (world.engine->in_flight() < 64) submit(63);
    }
    world.run();
    EXPECT_EQ(world.engine->stats().answered, 640u);
    EXPECT_LE(world.engine->stats().retransmissions, busy_us == 0 ? 20u : 10u) << busy_us;
  }
}

// Loss of single requests of a load whose latency is known, and of the first request of all.
TEST(ClientEngineRetries, LossIsRecoveredFromFast) {
  WorldOptions options;
  options.faults.loss = 0.02;
  World world(options);
  uint32_t next = 0;
  std::vector<uint64_t> tags;
  while (next < 2000) {
    while (world.engine->in_flight() < 32)
      tags.push_back(world.submit({.seed = next++, .service_us = 10'000}, 64));
    world.step();
  }
  world.run();
  std::vector<uint64_t> took_ns;
  for (const uint64_t tag : tags) {
    const Outcome& outcome = world.ended(tag).outcome;
    EXPECT_EQ(outcome.kind, OutcomeKind::kAnswered);
    if (outcome.tries > 1) took_ns.push_back(outcome.completed_ns - outcome.submitted_ns);
  }
  ASSERT_GT(took_ns.size(), 40u);
  std::ranges::sort(took_ns);
  EXPECT_LE(took_ns[took_ns.size() / 2], 150'000'000u);
}

TEST(ClientEngineRetries, TheFirstRequestIsRepeatedAfterAFewRoundTrips) {
  World world({});
  const uint64_t tag = world.submit({.seed = 1}, 64);
  while (world.engine->stats().tokens == 0) {
    world.engine->poll();
    world.network.set_faults({.loss = world.engine->stats().tokens > 0 ? 1.0 : 0.0});
    world.step();
  }
  world.network.set_faults({});
  world.run();
  const Outcome& outcome = world.ended(tag).outcome;
  EXPECT_EQ(outcome.kind, OutcomeKind::kAnswered);
  EXPECT_LE(outcome.completed_ns - outcome.submitted_ns, 60'000'000u);
}

// The server has forgotten the response, of which a piece arrived: it runs the request again.
TEST(ClientEngineRetries, AResponseThatTheServerForgotIsComputedAgain) {
  World world({});
  world.warm_up();
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 5000}, 64);
  world.server.forget_after_pieces = 2;
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.ended(tag).result, make_response({.seed = 1, .response_bytes = 5000}));
  EXPECT_EQ(world.server.executed, 3u);  // the warm-up, and this one twice
}

// A lost request is answered late, too. Its latency does not count, so the RTO stays.
TEST(ClientEngineRetries, LossesDoNotRaiseTheRto) {
  WorldOptions options;
  options.faults.loss = 0.4;
  World world(options);
  for (uint32_t i = 0; i < 200; ++i) {
    world.submit({.seed = i, .service_us = 100}, 64);
    world.run();
  }
  world.network.set_faults({.loss = 1});
  const uint64_t repeats = world.engine->stats().retransmissions;
  const uint64_t begin_ns = world.clock.now_ns();
  world.submit({.seed = 1}, 64);
  while (world.engine->stats().retransmissions < repeats + 2) world.step();
  EXPECT_LE(world.clock.now_ns() - begin_ns, 360'000'000u);  // 50 + 100 ms, and on to the next 200
}

// The server drops pieces with an old token in silence, and asks for them again and again, so that
// the client never waited long enough to renew its token.
TEST(ClientEngineRetries, AServerThatAsksForPiecesGetsANewToken) {
  WorldOptions options;
  options.server.context_life_ns = 60'000'000'000;
  World world(options);
  world.warm_up();
  world.network.set_faults({.loss = 0.5});
  const uint64_t tag = world.submit({.seed = 1}, 50'000);
  world.engine->flush();
  world.network.set_faults({});
  world.server.change_secret();
  world.run();
  const Outcome& outcome = world.ended(tag).outcome;
  EXPECT_EQ(outcome.kind, OutcomeKind::kAnswered);
  EXPECT_LE(outcome.completed_ns - outcome.submitted_ns, 400'000'000u);  // half of the token's life
}

TEST(ClientEngineRetries, TimeoutEndsABusyRequest) {
  WorldOptions options;
  options.engine.retry.timeout_ns = 200'000'000;
  World world(options);
  const uint64_t tag = world.submit({.seed = 1, .service_us = 900'000}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kLost);
}

TEST(ClientEngineRetries, WaitsAndRetriesWhenOverloaded) {
  WorldOptions options;
  options.engine.retry.max_refusal_retries = 3;
  World world(options);
  const uint64_t patient = world.submit({.seed = 1, .response_bytes = 5, .overloaded = 3}, 64);
  const uint64_t unlucky = world.submit({.seed = 2, .response_bytes = 5, .overloaded = 4}, 64);
  world.run();
  EXPECT_EQ(world.ended(patient).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.ended(unlucky).kind, OutcomeKind::kRefused);
  EXPECT_EQ(world.ended(unlucky).outcome.status, wire::StatusCode::kOverloaded);
  EXPECT_EQ(world.ended(unlucky).outcome.retry_after_us, 2000u);
}

// The server refuses four times and asks for a retry after 2 ms. A retry has what is left of the
// deadline, and none is made after it.
TEST(ClientEngineRetries, RetriesKeepTheDeadline) {
  for (const uint32_t budget_us : {5'000u, 50'000u}) {
    WorldOptions options;
    options.engine.retry.max_refusal_retries = 9;
    World world(options);
    world.submit({.seed = 1, .response_bytes = 5, .overloaded = 4}, 64, world.credentials[0],
                 budget_us);
    world.run();
    const std::vector<uint32_t>& budgets_us = world.server.budgets_us;
    EXPECT_EQ(budgets_us.front(), budget_us);
    for (size_t i = 1; i < budgets_us.size(); ++i) {
      EXPECT_LE(budgets_us[i] + 2000, budgets_us[i - 1]);
      EXPECT_GE(budgets_us[i] + 4000, budgets_us[i - 1]);
    }
    EXPECT_EQ(world.engine->stats().answered, budget_us == 50'000u);
    EXPECT_EQ(world.engine->stats().refused, budget_us == 5'000u);
    EXPECT_EQ(budgets_us.size() == 5, budget_us == 50'000u);
  }
}

}  // namespace
}  // namespace itif::client::test
