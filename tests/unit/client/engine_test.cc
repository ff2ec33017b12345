// ClientEngine against the server model: one protocol case per test, on a network with at most one
// kind of fault. engine_random_test.cc combines all faults.
#include "client/engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/unit/client/world.h"

namespace itif::client::test {
namespace {

TEST(ClientEngine, AnswersASmallRequest) {
  World world({});
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 100, .service_us = 500}, 64);
  world.run();
  const Ended& end = world.ended(tag);
  EXPECT_EQ(end.kind, OutcomeKind::kAnswered);
  EXPECT_EQ(end.result, make_response({.seed = 1, .response_bytes = 100}));
  EXPECT_EQ(end.outcome.server_us, 500u);
  EXPECT_EQ(end.outcome.result_rows, 7u);
  EXPECT_EQ(end.outcome.result_kind, wire::ResultKind::kHidden);
  EXPECT_EQ(end.outcome.tries, 1u);
  EXPECT_GE(end.outcome.completed_ns - end.outcome.submitted_ns, 520'000u);
  EXPECT_EQ(world.server.acks, 0u);  // an answer of one datagram needs none
}

TEST(ClientEngine, AnswersAnEmptyResponse) {
  World world({});
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 0}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_TRUE(world.ended(tag).result.empty());
}

TEST(ClientEngine, CutsAndReassemblesMessagesOfManyPieces) {
  WorldOptions options;
  options.faults.jitter_ns = 3'000'000;  // every order
  options.engine.fragment_bytes = 64;
  options.server.fragment_bytes = 68;
  World world(options);
  const uint64_t tag = world.submit({.seed = 2, .response_bytes = 100'003}, 50'001);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.ended(tag).result, make_response({.seed = 2, .response_bytes = 100'003}));
  EXPECT_EQ(world.server.wrong_payloads, 0u);
  EXPECT_EQ(world.server.executed, 1u);
  EXPECT_EQ(world.server.acks, 1u);
}

TEST(ClientEngine, CarriesTheLargestMessage) {
  WorldOptions options;
  options.engine.fragment_bytes = wire::kMaxFragmentBytes;
  options.server.fragment_bytes = wire::kMaxFragmentBytes;
  World world(options);
  const Order order{.seed = 3, .response_bytes = wire::kMaxTotalBytes};
  const uint64_t tag = world.submit(order, wire::kMaxTotalBytes);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.ended(tag).result, make_response(order));
  EXPECT_EQ(world.engine->submit({.payload = std::span(static_cast<const std::byte*>(nullptr),
                                                       wire::kMaxTotalBytes + 1)}),
            Submit::kTooLarge);
}

TEST(ClientEngine, RefusalsCarryCodeAndText) {
  World world({});
  for (uint16_t code = 1; code < wire::kNumStatusCodes; ++code) {
    // Without a token, it refuses an earlier send.
    if (static_cast<wire::StatusCode>(code) == wire::StatusCode::kTokenRequired) continue;
    const uint64_t tag = world.submit({.seed = code, .status = code}, 64);
    world.run();
    EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kRefused);
    EXPECT_EQ(world.ended(tag).outcome.status, static_cast<wire::StatusCode>(code));
    EXPECT_EQ(world.ended(tag).text(), "because");
  }
}

// A server answers strangers only for debugging. The request goes on after the refusal, which has
// no tag, and ends with it.
TEST(ClientEngine, RefusalsWithoutATagAreHints) {
  for (const bool answers : {false, true}) {
    WorldOptions options;
    options.server.answer_strangers = answers;
    World world(options);
    Credential stranger = world.credentials[0];
    stranger.tenant_id = 999;
    const uint64_t tag = world.submit({.seed = 1}, 64, stranger);
    world.run();
    const Outcome& outcome = world.ended(tag).outcome;
    EXPECT_EQ(outcome.kind, answers ? OutcomeKind::kRefused : OutcomeKind::kLost);
    EXPECT_EQ(outcome.status, answers ? wire::StatusCode::kUnknownTenant : wire::StatusCode::kOk);
    EXPECT_EQ(outcome.tries, options.engine.retry.max_tries);
    EXPECT_EQ(world.engine->stats().hints, answers ? options.engine.retry.max_tries : 0);
  }
}

TEST(ClientEngine, AForgedRefusalDoesNotEndARequest) {
  World world({});
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 8, .service_us = 900'000}, 64);
  while (world.server.executed == 0) world.step();
  wire::Header forged;
  forged.type = wire::Type::kStatus;
  forged.tenant_id = world.credentials[0].tenant_id;
  forged.session = world.options.engine.session;
  forged.request_id = world.first_request_id();
  forged.status = wire::StatusCode::kUnknownTenant;
  Bytes bytes(wire::kHeaderBytes);
  ASSERT_EQ(wire::build(forged, {}, wire::Key{}, bytes), bytes.size());
  world.network.send_to_client(0, bytes);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.engine->stats().hints, 1u);
}

TEST(ClientEngine, EveryAuthenticationIsAnswered) {
  for (const auto bytes : {64u, 50'001u}) {
    World world({});
    for (const Credential& credential : world.credentials) {
      const Order order{.seed = credential.tenant_id, .response_bytes = bytes};
      const uint64_t tag = world.submit(order, bytes, credential);
      world.run();
      EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered) << auth_name(credential.auth);
      EXPECT_EQ(world.ended(tag).result, make_response(order)) << auth_name(credential.auth);
    }
    EXPECT_EQ(world.server.wrong_payloads, 0u);
  }
}

// Datagrams that a full transport takes late are the same; a number is used once. The caller's
// payload stays as it is.
TEST(ClientEngine, NoSequenceNumberIsUsedTwice) {
  WorldOptions options;
  options.num_flows = 3;
  options.faults = {.loss = 0.1, .blocked = 0.7};
  options.engine.fragment_bytes = 64;
  World world(options);
  std::map<uint64_t, Bytes> sent;  // by sequence number
  world.network.set_tap([&](uint32_t, const Bytes& bytes) {
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.type == wire::Type::kHello) {
      EXPECT_EQ(datagram.header.sequence, 0u);
      return;
    }
    EXPECT_TRUE(sent.emplace(uint64_t{datagram.header.sequence}, bytes).second);
    EXPECT_NE(datagram.header.token, 0u);
  });
  for (uint32_t i = 0; i < 40; ++i)
    world.submit({.seed = i, .response_bytes = 1000 * (i % 3)}, 3000, world.credentials[3]);
  world.run();
  EXPECT_EQ(world.engine->stats().answered, 40u);
  EXPECT_GT(world.engine->stats().send_blocked, 0u);
  EXPECT_GT(world.engine->stats().retransmissions + world.engine->stats().resends_served, 0u);
  EXPECT_EQ(world.server.wrong_payloads, 0u);
  EXPECT_EQ(world.server.replayed, 0u);
}

// Requests end while the transport is full. The other datagrams of the batch, which are encrypted
// already, stay as they are.
TEST(ClientEngine, SealedDatagramsSurviveTheEndOfOthersInTheirBatch) {
  World world({});
  world.warm_up();
  world.network.set_faults({.is_full = true});
  std::vector<uint64_t> tags;
  for (uint32_t i = 0; i < 30; ++i) {
    tags.push_back(world.submit({.seed = i, .response_bytes = 9}, 200, world.credentials[3], 0,
                                i % 3 == 0 ? 3'000'000 : 0));
  }
  const uint64_t lost_ns = world.clock.now_ns() + 5'000'000;
  while (world.clock.now_ns() < lost_ns) world.step();
  EXPECT_EQ(world.engine->stats().lost, 10u);
  world.network.set_faults({});
  world.run();
  for (size_t i = 0; i < tags.size(); ++i) {
    if (i % 3 != 0) {
      EXPECT_EQ(world.ended(tags[i]).kind, OutcomeKind::kAnswered) << i;
    }
  }
  EXPECT_EQ(world.server.wrong_payloads, 0u);
  EXPECT_EQ(world.server.refused_datagrams, 0u);
}

TEST(ClientEngine, WrongKeyGetsNoAnswerAndIsLost) {
  World world({});
  Credential wrong = world.credentials[0];
  wrong.key[3] ^= std::byte{1};
  const uint64_t tag = world.submit({.seed = 1}, 64, wrong);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kLost);
  EXPECT_EQ(world.ended(tag).outcome.tries, world.options.engine.retry.max_tries);
  EXPECT_EQ(world.server.executed, 0u);
}

TEST(ClientEngine, SaysHelloOnceBeforeItsFirstRequest) {
  World world({});
  std::vector<uint64_t> tags;
  for (uint32_t i = 0; i < 50; ++i) tags.push_back(world.submit({.seed = i}, 64));
  world.run();
  for (uint64_t tag : tags) EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.server.tokens_given, 1u);
  EXPECT_EQ(world.server.token_refusals, 0u);
  EXPECT_EQ(world.engine->stats().tokens, 1u);
  // Later requests carry the token at once.
  const uint64_t sent = world.engine->stats().datagrams_sent;
  const uint64_t tag = world.submit({.seed = 99}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.engine->stats().datagrams_sent, sent + 1);
}

TEST(ClientEngine, RepeatsAHelloThatIsLost) {
  World world({});
  world.network.set_faults({.loss = 1});
  const uint64_t tag = world.submit({.seed = 1}, 64);
  while (world.engine->stats().hellos < 3) world.step();
  EXPECT_EQ(world.engine->stats().datagrams_sent, 3u);
  world.network.set_faults({});
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  const Outcome& outcome = world.ended(tag).outcome;
  EXPECT_LE(outcome.completed_ns - outcome.submitted_ns, 360'000'000u);  // hellos: 0, 50, 150, 350
}

// The round trip takes longer than the time after which a hello is repeated.
TEST(ClientEngine, TheTokenOfAnyRepeatedHelloIsAccepted) {
  WorldOptions options;
  options.faults.min_delay_ns = 120'000'000;
  options.server.token_life_ns = 30'000'000'000;
  World world(options);
  const uint64_t tag = world.submit({.seed = 1}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  const Outcome& outcome = world.ended(tag).outcome;
  EXPECT_LE(outcome.completed_ns - outcome.submitted_ns, 490'000'000u);  // two round trips
  EXPECT_EQ(outcome.tries, 1u);
}

// The server has restarted: its tokens have another secret.
TEST(ClientEngine, SendsAgainWithANewTokenAfterARefusal) {
  for (const size_t tenant : {0u, 2u, 3u}) {
    World world({});
    world.warm_up();
    world.server.change_secret();
    const uint64_t hellos = world.engine->stats().hellos;
    const uint64_t tag =
        world.submit({.seed = 1, .response_bytes = 5}, 5000, world.credentials[tenant]);
    world.run();
    const Outcome& outcome = world.ended(tag).outcome;
    EXPECT_EQ(outcome.kind, OutcomeKind::kAnswered);
    EXPECT_EQ(outcome.tries, 2u);
    EXPECT_LE(outcome.completed_ns - outcome.submitted_ns, 1'000'000u);
    EXPECT_EQ(world.engine->stats().token_refusals, 1u);
    EXPECT_EQ(world.engine->stats().hellos, hellos + 1);
  }
}

// Two servers refuse each other's tokens for 100 ms, while one hands over to the other.
TEST(ClientEngine, RefusalsOfEachTokenDoNotEndRequestsNorFloodTheNetwork) {
  World world({});
  world.warm_up();
  const uint64_t before = world.engine->stats().datagrams_sent;
  std::vector<uint64_t> tags;
  for (uint32_t i = 0; i < 20; ++i) tags.push_back(world.submit({.seed = i}, 64));
  const uint64_t end_ns = world.clock.now_ns() + 100'000'000;
  while (world.clock.now_ns() < end_ns) {
    world.server.change_secret();
    world.step();
  }
  world.run();
  for (const uint64_t tag : tags) EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_LE(world.engine->stats().datagrams_sent - before, 20u * 8);
}

TEST(ClientEngine, GetsANewTokenAfterALongPause) {
  World world({});
  world.warm_up();
  world.clock.advance_ns(10 * world.options.server.token_life_ns);
  world.submit({.seed = 1}, 64);
  world.run();
  EXPECT_EQ(world.server.token_refusals, 0u);
  EXPECT_EQ(world.server.tokens_given, 2u);
}

TEST(ClientEngine, RenewsItsTokenBeforeItExpires) {
  WorldOptions options;
  World world(options);
  uint32_t refused = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const uint64_t tag = world.submit({.seed = i}, 64);
    world.run();
    EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
    if (i > 0 && world.ended(tag).outcome.tries > 1) ++refused;
    world.clock.advance_ns(20'000'000);  // 2 s in total, five lifetimes of a token
  }
  EXPECT_EQ(refused, 0u);
  EXPECT_GE(world.server.tokens_given, 5u);
}

TEST(ClientEngine, RefusesRequestsBeyondItsSlots) {
  WorldOptions options;
  options.engine.max_in_flight = 4;
  World world(options);
  for (uint32_t i = 0; i < 4; ++i) world.submit({.seed = i}, 64);
  const Bytes payload = make_payload({.seed = 9}, 64);
  EXPECT_EQ(world.engine->submit({.credential = world.credentials[0], .payload = payload}),
            Submit::kFull);
  world.run();
  EXPECT_EQ(world.engine->in_flight(), 0u);
}

TEST(ClientEngine, CancelEndsEveryRequestOnce) {
  World world({});
  std::vector<uint64_t> tags;
  for (uint32_t i = 0; i < 300; ++i) tags.push_back(world.submit({.seed = i}, 64));
  world.engine->cancel_all();
  for (uint64_t tag : tags) EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kCancelled);
  EXPECT_EQ(world.engine->in_flight(), 0u);
  world.engine->flush();  // the hello
  EXPECT_FALSE(world.engine->has_unsent());
}

TEST(ClientEngine, ReassemblyMemoryIsBounded) {
  WorldOptions options;
  options.engine.max_reassembly_bytes = 40'000;  // one response of 30,000 at a time
  options.engine.retry.max_tries = 50;
  World world(options);
  std::vector<uint64_t> tags;
  for (uint32_t i = 0; i < 5; ++i)
    tags.push_back(world.submit({.seed = i, .response_bytes = 30'000}, 64));
  world.run();
  for (uint64_t tag : tags) EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_GT(world.engine->stats().dropped[static_cast<size_t>(Drop::kNoMemory)], 0u);
}

TEST(ClientEngine, ResponsesAboveTheLimitAreCounted) {
  WorldOptions options;
  options.engine.max_response_bytes = 1000;
  options.server.token_life_ns = 30'000'000'000;  // the loss is not blamed on a token
  World world(options);
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 1001}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kLost);
  EXPECT_GT(world.engine->stats().dropped[static_cast<size_t>(Drop::kTooLarge)], 0u);
}

TEST(ClientEngine, DropsDatagramsOfOthers) {
  World world({});
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 8, .service_us = 1000}, 64);
  const auto inject = [&](wire::Header header, std::string_view payload, const wire::Key& key) {
    Bytes bytes(600);
    bytes.resize(wire::build(header, std::as_bytes(std::span(payload)), key, bytes));
    world.network.send_to_client(0, bytes);
  };
  const Credential& tenant = world.credentials[0];
  wire::Header good;
  good.type = wire::Type::kStatus;
  good.auth = tenant.auth;
  good.tenant_id = tenant.tenant_id;
  good.session = world.options.engine.session;
  good.request_id = world.first_request_id();
  good.key_epoch = tenant.key_epoch;
  good.status = wire::StatusCode::kInternal;

  while (world.server.executed == 0) world.step();
  world.network.send_to_client(0, Bytes(20));
  wire::Header header = good;
  header.session ^= 1;
  inject(header, "", tenant.key);
  header = good;
  header.request_id += 1;  // a free slot
  inject(header, "", tenant.key);
  header = good;
  header.request_id += uint64_t{1} << 40;  // the same slot, another request
  inject(header, "", tenant.key);
  inject(good, "", wire::Key{});  // wrong key
  header = good;
  header.auth = wire::Auth::kNone;  // a status that must have a tag
  inject(header, "", tenant.key);
  header = good;
  header.tenant_id += 1;
  inject(header, "", tenant.key);
  header = good;
  header.type = wire::Type::kAck;  // only servers receive these
  header.status = wire::StatusCode::kOk;
  inject(header, "", tenant.key);
  header = {};
  header.type = wire::Type::kToken;  // not asked for
  header.session = world.options.engine.session;
  header.token = 5;
  inject(header, "", tenant.key);
  world.run();

  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  const auto& dropped = world.engine->stats().dropped;
  EXPECT_EQ(dropped[static_cast<size_t>(Drop::kMalformed)], 1u);
  EXPECT_EQ(dropped[static_cast<size_t>(Drop::kNotOurs)], 3u);
  EXPECT_EQ(dropped[static_cast<size_t>(Drop::kLate)], 2u);
  EXPECT_EQ(dropped[static_cast<size_t>(Drop::kBadTag)], 3u);
}

TEST(ClientEngine, ResendOfAnotherSizeIsDropped) {
  World world({});
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 8, .service_us = 1000}, 5000);
  while (world.server.executed == 0) world.step();
  const Credential& tenant = world.credentials[0];
  wire::Header header;
  header.type = wire::Type::kResend;
  header.auth = tenant.auth;
  header.tenant_id = tenant.tenant_id;
  header.session = world.options.engine.session;
  header.request_id = world.first_request_id();
  header.total_bytes = 5004;  // the request has 5000
  header.fragment_bytes = wire::kDefaultFragmentBytes;
  const wire::Range range{0, 4};
  Bytes bytes(200);
  bytes.resize(wire::build(header, std::as_bytes(std::span(&range, 1)), tenant.key, bytes));
  world.network.send_to_client(0, bytes);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.engine->stats().dropped[static_cast<size_t>(Drop::kBadGeometry)], 1u);
  EXPECT_EQ(world.engine->stats().datagrams_sent, 5u);  // a hello and four pieces
}

TEST(ClientEngine, OptionsOutOfRangeAreNamed) {
  VirtualClock clock;
  Random random(1);
  MemoryNetwork network(clock, random, 1, {});
  struct Sink final : OutcomeSink {
    void on_outcomes(std::span<const Outcome>) noexcept override {}
  } sink;
  const auto error = [&](EngineOptions options) {
    const auto engine = ClientEngine::create(clock, network, sink, options);
    return engine ? std::string() : engine.error().message;
  };
  EXPECT_EQ(error({}), "");
  EXPECT_NE(error({.max_in_flight = 0}).find("max_in_flight"), std::string::npos);
  EXPECT_NE(error({.fragment_bytes = 65}).find("fragment_bytes"), std::string::npos);
  EXPECT_NE(error({.burst_datagrams = 0}).find("burst_datagrams"), std::string::npos);
  EXPECT_NE(error({.retry = {.max_tries = 0}}).find("max_tries"), std::string::npos);
}

}  // namespace
}  // namespace itif::client::test
