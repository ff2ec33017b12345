// itif-loadgen's parts: schedules, weights, lengths, payloads, damage, floods.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/client/loadgen_options.h"
#include "tests/unit/client/memory_network.h"
#include "tools/itif-loadgen/damage.h"
#include "tools/itif-loadgen/flood.h"
#include "tools/itif-loadgen/live.h"
#include "tools/itif-loadgen/request_mix.h"
#include "tools/itif-loadgen/schedule.h"

namespace itif::loadgen {
namespace {

using client::test::Bytes;
using client::test::MemoryNetwork;
using client::test::NetworkFaults;

TEST(Schedule, PoissonGapsHaveTheRightMeanAndVariance) {
  Schedule schedule(true, 1000, 5'000'000'000, 0, 1, 42);
  double sum = 0, squares = 0;
  uint64_t last = 5'000'000'000;
  constexpr int kCount = 200'000;
  for (int i = 0; i < kCount; ++i) {
    const double gap = static_cast<double>(schedule.next_ns() - last);
    last = schedule.next_ns();
    sum += gap;
    squares += gap * gap;
    schedule.advance();
  }
  const double mean = sum / kCount;
  const double variance = squares / kCount - mean * mean;
  EXPECT_NEAR(mean, 1e6, 1e4);
  // An exponential distribution's deviation equals its mean.
  EXPECT_NEAR(std::sqrt(variance), 1e6, 2e4);
}

TEST(Schedule, SharesOfAConstantRateInterleave) {
  std::vector<uint64_t> times;
  for (uint32_t share = 0; share < 4; ++share) {
    Schedule schedule(false, 1000, 1'000'000'000, share, 4, 1);
    for (int i = 0; i < 1000; ++i, schedule.advance()) times.push_back(schedule.next_ns());
  }
  std::sort(times.begin(), times.end());
  for (size_t i = 0; i < times.size(); ++i)
    ASSERT_NEAR(static_cast<double>(times[i]), 1e9 + 1e6 * static_cast<double>(i), 2.0);
}

TEST(WeightedChoice, FollowsTheWeights) {
  const double weights[] = {1, 2, 0.5, 6.5, 1e-6};
  const WeightedChoice choice(weights);
  Random random(3);
  std::array<int, 5> counts{};
  for (int i = 0; i < 200'000; ++i) ++counts[choice.pick(random)];
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(counts[i] / 200'000.0, weights[i] / 10, 0.005) << i;
  const double single[] = {7};
  EXPECT_EQ(WeightedChoice(single).pick(random), 0u);
}

TEST(DeadlinesOfRequests, FollowTheirDistribution) {
  Random random(4);
  EXPECT_EQ(draw_budget_us({}, 20, random), 0u);
  EXPECT_EQ(draw_budget_us({Deadlines::Kind::kFixed, 7}, 20, random), 7u);
  EXPECT_EQ(draw_budget_us({Deadlines::Kind::kByLength, 5000, 200}, 20, random), 9000u);
  std::map<uint32_t, int> seen;
  for (int i = 0; i < 50'000; ++i)
    ++seen[draw_budget_us({Deadlines::Kind::kUniform, 3, 7}, 20, random)];
  EXPECT_EQ(seen.size(), 5u);
  for (uint32_t us = 3; us <= 7; ++us) EXPECT_NEAR(seen[us], 10'000, 500);
}

TEST(Lengths, StayInTheirRange) {
  Random random(9);
  const Lengths uniform{Lengths::Kind::kUniform, 3, 7};
  std::array<int, 10> seen{};
  for (int i = 0; i < 50'000; ++i) ++seen[draw_length(uniform, random)];
  EXPECT_EQ(seen[2] + seen[8], 0);
  for (size_t n = 3; n <= 7; ++n) EXPECT_NEAR(seen[n], 10'000, 500);
  const Lengths normal{Lengths::Kind::kNormal, 20, 10};
  double sum = 0;
  for (int i = 0; i < 50'000; ++i) {
    const uint32_t length = draw_length(normal, random);
    ASSERT_GE(length, 1u);
    ASSERT_LE(length, max_tokens(normal));
    sum += length;
  }
  EXPECT_NEAR(sum / 50'000, 20, 0.5);
}

TEST(PayloadPool, TokenIdsAreBelowTheVocabulary) {
  Options options = basic_options();
  options.vocab = 100;
  for (const auto kind : {wire::PayloadKind::kTokensU16, wire::PayloadKind::kTokensU32}) {
    options.payload_kind = kind;
    const size_t bytes = kind == wire::PayloadKind::kTokensU16 ? 2 : 4;
    const PayloadPool pool(options);
    Random random(1);
    uint32_t most = 0;
    for (int i = 0; i < 200; ++i) {
      const auto payload = pool.draw(random);
      ASSERT_EQ(payload.size() % bytes, 0u);
      ASSERT_GE(payload.size(), 16 * bytes);
      ASSERT_LE(payload.size(), 600 * bytes);
      for (size_t at = 0; at < payload.size(); at += bytes) {
        uint32_t id = 0;
        std::memcpy(&id, payload.data() + at, bytes);
        most = std::max(most, id);
      }
    }
    EXPECT_EQ(most, 99u);
  }
}

TEST(PayloadPool, ImagesAreCompleteAndHaveTheirSize) {
  Options options = basic_options();
  for (const auto kind : {wire::PayloadKind::kImageU8, wire::PayloadKind::kImageF32}) {
    const std::string text = std::string(wire::payload_kind_name(kind)) + ":5x7x3";
    ASSERT_TRUE(parse_image(text, options.payload_kind, options.image));
    EXPECT_EQ(options.payload_kind, kind);
    const PayloadPool pool(options);
    Random random(1);
    for (int i = 0; i < 20; ++i) {
      const auto payload = pool.draw(random);
      wire::ImagePrefix image;
      ASSERT_TRUE(
          wire::parse_image_prefix(kind, payload, static_cast<uint32_t>(payload.size()), image));
      EXPECT_EQ(image.height, 5);
      EXPECT_EQ(image.width, 7);
      EXPECT_EQ(image.channels, 3);
    }
  }
}

TEST(Damage, EveryKindDamagesAsNamed) {
  const Options options = basic_options();
  Random random(11);
  const Bytes payload(100, std::byte{1});
  for (size_t kind = 0; kind < kNumDamages; ++kind) {
    const auto damage = static_cast<Damage>(kind);
    SCOPED_TRACE(damage_name(damage));
    for (int round = 0; round < 500; ++round) {
      const Target& target = options.targets[static_cast<size_t>(round) % 2];
      Bytes out(kMaxDamagedBytes);
      const size_t bytes = damaged(damage, target, {.session = 1, .token = 5, .sequence = 1000},
                                   1000, wire::PayloadKind::kTokensU16, payload, random, out);
      ASSERT_GE(bytes, 1u);
      out.resize(bytes);
      wire::Datagram datagram;
      const wire::ParseError error = wire::parse(out, datagram);
      switch (damage) {
        case Damage::kTag:
          ASSERT_EQ(error, wire::ParseError::kNone);
          ASSERT_FALSE(wire::verify_tag(target.credential.key, datagram));
          break;
        case Damage::kToken:
        case Damage::kReplay:
          ASSERT_EQ(error, wire::ParseError::kNone);
          ASSERT_TRUE(wire::verify_tag(target.credential.key, datagram));
          ASSERT_EQ(datagram.header.token == 5, damage == Damage::kReplay);
          ASSERT_EQ(datagram.header.sequence < 1000, damage == Damage::kReplay);
          break;
        case Damage::kUnknownTenant:
        case Damage::kEpoch:
        case Damage::kHalfSent:
        case Damage::kChangedGeometry:
          ASSERT_EQ(error, wire::ParseError::kNone);
          ASSERT_TRUE(wire::verify_tag(target.credential.key, datagram));
          break;
        default:
          // A server refuses it as malformed, or because only servers send that type.
          ASSERT_TRUE(error != wire::ParseError::kNone ||
                      datagram.header.type != wire::Type::kRequest);
      }
    }
  }
}

TEST(Flood, SendsWholeRequestsAndTheShareOfDamage) {
  Options options = basic_options();
  options.flood = true;
  options.malform = 0.25;
  options.max_requests = 3000;
  options.fragment_bytes = 256;
  options.flows = 2;
  VirtualClock clock;
  Random random(1);
  MemoryNetwork network(clock, random, 2, NetworkFaults{});
  std::map<uint64_t, std::set<uint32_t>> flows_of;  // by request id
  std::set<std::pair<uint32_t, uint64_t>> numbers;  // flow, sequence
  uint64_t arrived = 0, hellos = 0;
  network.set_server([&](uint32_t flow, const Bytes& bytes) {
    wire::Datagram datagram;
    const bool is_good = wire::parse(bytes, datagram) == wire::ParseError::kNone;
    if (is_good && datagram.header.type == wire::Type::kHello) {
      ++hellos;
      network.send_to_client(flow, token_for(datagram.header, 1000 + flow));
      return;
    }
    ++arrived;
    if (!is_good) return;
    if (datagram.header.request_id >= 1'000'000 && datagram.header.fragment_bytes == 256 &&
        datagram.header.token == 1000 + flow)
      numbers.insert({flow, uint64_t{datagram.header.sequence}});
    const uint64_t id = datagram.header.request_id;
    if (id >= 1'000'000 && datagram.header.fragment_bytes == 256) flows_of[id].insert(flow);
  });
  const PayloadPool pool(options);
  std::atomic<int> stop{0};
  Flooder flooder(clock, network,
                  {.options = &options,
                   .pool = &pool,
                   .stop = &stop,
                   .session = 3,
                   .first_request = 1'000'000,
                   .start_ns = clock.now_ns()});
  while (flooder.step()) {
    clock.advance_ns(20'000);
    network.deliver_to_server();
  }
  clock.advance_ns(1'000'000);
  network.deliver_to_server();
  const FloodResults& results = flooder.results();
  EXPECT_GE(results.requests, 3000u);
  EXPECT_EQ(arrived, results.datagrams_sent);
  EXPECT_EQ(hellos, 2u);
  EXPECT_EQ(results.flows_with_token, 2u);
  EXPECT_GT(numbers.size(), results.requests);
  EXPECT_GT(flows_of.size(), 3000u);
  for (const auto& [id, flows] : flows_of) EXPECT_EQ(flows.size(), 1u) << id;
  const double share = static_cast<double>(results.total_damaged()) /
                       static_cast<double>(results.total_damaged() + results.requests);
  EXPECT_NEAR(share, 0.25, 0.03);
  for (uint64_t count : results.damaged) EXPECT_GT(count, 10u);
  const auto json = flood_json(options, results);
  EXPECT_EQ(json["requests_sent"], results.requests);
}

// A server that does not answer a hello: the flood begins after a second, and the report says so.
TEST(Flood, BeginsWithoutTokensAfterASecond) {
  Options options = basic_options();
  options.flood = true;
  options.max_requests = 10;
  VirtualClock clock;
  Random random(1);
  MemoryNetwork network(clock, random, 1, NetworkFaults{});
  network.set_server([](uint32_t, const Bytes&) {});
  const PayloadPool pool(options);
  std::atomic<int> stop{0};
  const uint64_t start_ns = clock.now_ns();
  Flooder flooder(clock, network,
                  {.options = &options, .pool = &pool, .stop = &stop, .start_ns = start_ns});
  while (flooder.step()) clock.advance_ns(1'000'000);
  EXPECT_GE(clock.now_ns(), start_ns + 1'000'000'000);
  EXPECT_GE(flooder.results().requests, 10u);
  EXPECT_NE(flood_table(flooder.results()).find("0 of 1 flows"), std::string::npos);
}

TEST(Flood, SealedRequestsCanBeOpened) {
  Options options = basic_options();
  options.flood = true;
  options.max_requests = 300;
  options.fragment_bytes = 256;
  for (Target& target : options.targets) target.credential.auth = wire::Auth::kSealed;
  VirtualClock clock;
  Random random(1);
  MemoryNetwork network(clock, random, 1, NetworkFaults{});
  std::set<uint64_t> numbers;
  network.set_server([&](uint32_t flow, Bytes bytes) {
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.type == wire::Type::kHello) {
      network.send_to_client(flow, token_for(datagram.header, 7));
      return;
    }
    const auto& key = options.targets[datagram.header.tenant_id - 1].credential.key;
    EXPECT_TRUE(wire::open(key, datagram));
    EXPECT_TRUE(numbers.insert(uint64_t{datagram.header.sequence}).second);
  });
  const PayloadPool pool(options);
  std::atomic<int> stop{0};
  Flooder flooder(clock, network,
                  {.options = &options, .pool = &pool, .stop = &stop, .start_ns = clock.now_ns()});
  while (flooder.step()) {
    clock.advance_ns(20'000);
    network.deliver_to_server();
  }
  EXPECT_GT(numbers.size(), 300u);
}

TEST(LiveFeed, EndedFeedDoesNotDelayOthers) {
  LiveFeed going, ended;
  Histogram interval;
  interval.record(1000);
  ended.ask();
  ended.end({.sent = 7, .answered = 5}, interval);  // asked for counts, but ended before an offer
  going.ask();
  Histogram none;
  EXPECT_TRUE(going.offer({.sent = 2}, none));
  for (const uint64_t expected : {1u, 0u}) {  // latencies of the ended feed count once
    LiveCounts counts;
    Histogram latencies;
    EXPECT_TRUE(going.take(counts, latencies));
    EXPECT_TRUE(ended.take(counts, latencies));
    EXPECT_EQ(counts.sent, 9u);
    EXPECT_EQ(counts.answered, 5u);
    EXPECT_EQ(latencies.count(), expected);
  }
}

}  // namespace
}  // namespace itif::loadgen
