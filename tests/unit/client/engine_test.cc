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
    if (static_cast<wire::StatusCode>(code) == wire::StatusCode::kTokenRequired) continue;
    const uint64_t tag = world.submit({.seed = code, .status = code}, 64);
    world.run();
    EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kRefused);
    EXPECT_EQ(world.ended(tag).outcome.status, static_cast<wire::StatusCode>(code));
    EXPECT_EQ(world.ended(tag).text(), "because");
  }
}

TEST(ClientEngine, UnknownTenantIsRefusedWithoutATag) {
  World world({});
  Credential stranger = world.credentials[0];
  stranger.tenant_id = 999;
  const uint64_t tag = world.submit({.seed = 1}, 64, stranger);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kRefused);
  EXPECT_EQ(world.ended(tag).outcome.status, wire::StatusCode::kUnknownTenant);
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

TEST(ClientEngine, SaysHelloOnceWhenATokenIsRequired) {
  WorldOptions options;
  options.server.require_token = true;
  World world(options);
  std::vector<uint64_t> tags;
  for (uint32_t i = 0; i < 50; ++i) tags.push_back(world.submit({.seed = i}, 64));
  world.run();
  for (uint64_t tag : tags) EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.server.tokens_given, 1u);
  // Later requests carry the token at once.
  const uint64_t sent = world.engine->stats().datagrams_sent;
  const uint64_t tag = world.submit({.seed = 99}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kAnswered);
  EXPECT_EQ(world.engine->stats().datagrams_sent, sent + 1);
}

TEST(ClientEngine, RenewsItsTokenBeforeItExpires) {
  WorldOptions options;
  options.server.require_token = true;
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
  World world(options);
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 1001}, 64);
  world.run();
  EXPECT_EQ(world.ended(tag).kind, OutcomeKind::kLost);
  EXPECT_GT(world.engine->stats().dropped[static_cast<size_t>(Drop::kTooLarge)], 0u);
}

TEST(ClientEngine, DropsDatagramsOfOthers) {
  World world({});
  const uint64_t tag = world.submit({.seed = 1, .response_bytes = 8}, 64);
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
  header.aux = 5;
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
  EXPECT_EQ(world.engine->stats().datagrams_sent, 4u);
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
