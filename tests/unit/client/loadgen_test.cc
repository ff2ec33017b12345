// itif-loadgen's parts: schedules, weights, lengths, payloads, damage, and a whole sender on a
// virtual clock.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/client/server_model.h"
#include "tools/itif-loadgen/damage.h"
#include "tools/itif-loadgen/flood.h"
#include "tools/itif-loadgen/report.h"
#include "tools/itif-loadgen/request_mix.h"
#include "tools/itif-loadgen/schedule.h"
#include "tools/itif-loadgen/sender.h"

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
  EXPECT_NEAR(std::sqrt(variance), 1e6, 2e4);  // an exponential's deviation is its mean
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

Options basic_options() {
  Options options;
  Target target{.name = "a", .credential = {.tenant_id = 1, .key_epoch = 2}};
  for (size_t i = 0; i < 16; ++i) target.credential.key[i] = static_cast<std::byte>(i * 7);
  options.targets.push_back(target);
  target.name = "b";
  target.credential.tenant_id = 2;
  target.credential.auth = wire::Auth::kFull;
  target.weight = 3;
  options.targets.push_back(target);
  options.lengths = {Lengths::Kind::kUniform, 16, 600};
  return options;
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

// A server that answers every request after a fixed time, but stands still during a stall.
class StallingServer {
 public:
  StallingServer(VirtualClock& clock, MemoryNetwork& network, const Options& options)
      : clock_(clock), network_(network), options_(options) {}

  uint64_t service_ns = 100'000;
  uint64_t stall_from_ns = UINT64_MAX;
  uint64_t stall_until_ns = 0;
  uint16_t refuse_tenant = 0;
  uint64_t ignored = 0;  // of every three requests of this tenant id's, ignore one
  uint32_t lossy_tenant = 0;

  void on_datagram(uint32_t flow, const Bytes& bytes) {
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.type != wire::Type::kRequest || datagram.header.offset != 0) return;
    const auto& target = options_.targets[datagram.header.tenant_id - 1];
    ASSERT_TRUE(wire::verify_tag(target.credential.key, datagram));
    if (datagram.header.tenant_id == lossy_tenant && ++count_ % 3 == 0) {
      ++ignored;
      return;
    }
    wire::Header header = wire::reply_header(datagram.header, wire::Type::kResponse);
    if (datagram.header.tenant_id == refuse_tenant) {
      header.type = wire::Type::kStatus;
      header.status = wire::StatusCode::kOverQuota;
    } else {
      header.result_kind = wire::ResultKind::kLogits;
      header.fragment_bytes = 1384;
      header.budget_us = 77;
    }
    Bytes out(100);
    out.resize(wire::build(header, {}, target.credential.key, out));
    uint64_t when = clock_.now_ns() + service_ns;
    if (when >= stall_from_ns && when < stall_until_ns) when = stall_until_ns;
    due_.emplace(when, std::pair{flow, out});
  }
  void poll() {
    while (!due_.empty() && due_.begin()->first <= clock_.now_ns()) {
      network_.send_to_client(due_.begin()->second.first, due_.begin()->second.second);
      due_.erase(due_.begin());
    }
  }
  uint64_t next_ns() const { return due_.empty() ? UINT64_MAX : due_.begin()->first; }

 private:
  VirtualClock& clock_;
  MemoryNetwork& network_;
  const Options& options_;
  uint64_t count_ = 0;
  std::multimap<uint64_t, std::pair<uint32_t, Bytes>> due_;
};

struct Trial {
  explicit Trial(Options o)
      : options(std::move(o)),
        random(5),
        network(clock, random, options.flows, NetworkFaults{}),
        server(clock, network, options),
        pool(options) {
    network.set_server([this](uint32_t flow, const Bytes& b) { server.on_datagram(flow, b); });
    auto made = Sender::create(clock, network,
                               {.options = &options,
                                .pool = &pool,
                                .stop = &stop,
                                .session = 9,
                                .first_request = 0,
                                .start_ns = clock.now_ns() + 1'000'000});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    sender = std::move(*made);
  }
  const Results& run() {
    for (uint64_t steps = 0; !sender->done(); ++steps) {
      EXPECT_LT(steps, 3'000'000u);
      if (steps >= 3'000'000u) break;
      step();
    }
    return sender->results();
  }
  void step() {
    const uint64_t wake = sender->step();
    const uint64_t now = clock.now_ns();
    const uint64_t next =
        std::min({wake, network.next_event_ns(), server.next_ns(), now + 50'000'000});
    clock.advance_ns(next > now ? next - now : 1000);
    network.deliver_to_server();
    server.poll();
  }

  Options options;
  VirtualClock clock;
  Random random;
  MemoryNetwork network;
  StallingServer server;
  PayloadPool pool;
  std::atomic<int> stop{0};
  std::unique_ptr<Sender> sender;
};

TEST(Sender, OpenLoopSendsAtTheRateAndAnswersAll) {
  Options options = basic_options();
  options.rate = 2000;
  options.duration_ns = 5'000'000'000;
  options.warmup_ns = 1'000'000'000;
  options.flows = 3;
  Trial trial(options);
  const Results& results = trial.run();
  const TargetResults total = results.total();
  EXPECT_NEAR(static_cast<double>(total.sent), 10'000, 400);
  EXPECT_NEAR(static_cast<double>(results.warmup_requests), 2'000, 200);
  EXPECT_EQ(total.answered, total.sent);
  EXPECT_EQ(results.measured_ns, options.duration_ns);
  EXPECT_TRUE(all_answered(results));
  EXPECT_NEAR(static_cast<double>(results.targets[1].sent) / static_cast<double>(total.sent), 0.75,
              0.02);
  EXPECT_EQ(results.server_ns.percentile(50), 77'000u);
  // 100 µs of service and 20 µs of network.
  EXPECT_NEAR(static_cast<double>(total.latency_ns.percentile(50)), 120'000, 4'000);
  EXPECT_EQ(results.unsent, 0u);
}

// The server stands still for one second of ten: whoever was due in that second waited, and an open
// loop must say so although most of them could be sent only late or were answered in a burst.
TEST(Sender, AStallShowsInThePercentiles) {
  Options options = basic_options();
  options.rate = 1000;
  options.arrivals = Arrivals::kConstant;
  options.duration_ns = 10'000'000'000;
  options.retry = client::RetryPolicy::none(5'000'000'000);
  options.max_in_flight = 50;  // far less than what is due in the stall
  Trial trial(options);
  trial.server.stall_from_ns = trial.clock.now_ns() + 4'000'000'000;
  trial.server.stall_until_ns = trial.clock.now_ns() + 5'000'000'000;
  const TargetResults total = trial.run().total();
  EXPECT_EQ(total.sent, 10'000u);
  EXPECT_EQ(total.answered, 10'000u);
  // A tenth of the requests waited between 0 and 1 s, evenly.
  EXPECT_LT(total.latency_ns.percentile(85), 1'000'000u);
  EXPECT_NEAR(static_cast<double>(total.latency_ns.percentile(95)), 5e8, 3e7);
  EXPECT_NEAR(static_cast<double>(total.latency_ns.percentile(99)), 9e8, 3e7);
  EXPECT_GT(trial.sender->results().lateness_ns.percentile(99), 100'000'000u);
}

TEST(Sender, ClosedLoopKeepsItsConcurrency) {
  Options options = basic_options();
  options.arrivals = Arrivals::kClosed;
  options.concurrency = 8;
  options.duration_ns = 2'000'000'000;
  Trial trial(options);
  const TargetResults total = trial.run().total();
  EXPECT_EQ(total.answered, total.sent);
  // 8 requests a round trip of 120 µs.
  EXPECT_NEAR(static_cast<double>(total.sent), 8 * 2e9 / 120'000, 8 * 2e9 / 120'000 * 0.05);
}

TEST(Sender, RefusalsAndLossesAreCountedByTenantAndStatus) {
  Options options = basic_options();
  options.rate = 1000;
  options.duration_ns = 2'000'000'000;
  options.retry = client::RetryPolicy::none(300'000'000);
  Trial trial(options);
  trial.server.refuse_tenant = 1;
  trial.server.lossy_tenant = 2;
  const Results& results = trial.run();
  const TargetResults& a = results.targets[0];
  const TargetResults& b = results.targets[1];
  EXPECT_EQ(a.refused, a.sent);
  EXPECT_EQ(a.refused_by[static_cast<size_t>(wire::StatusCode::kOverQuota)], a.sent);
  EXPECT_EQ(b.lost, trial.server.ignored);
  EXPECT_EQ(b.answered + b.lost, b.sent);
  EXPECT_FALSE(all_answered(results));
  const auto json = to_json(options, results);
  EXPECT_EQ(json["tenants"][0]["refused_by_status"]["over_quota"], a.sent);
  EXPECT_EQ(json["tenants"][1]["lost"], b.lost);
  EXPECT_EQ(json["total"]["sent"], a.sent + b.sent);
  EXPECT_EQ(json.dump().find("key\""), std::string::npos);  // keys stay out of results
  const std::string text = table(options, results);
  EXPECT_NE(text.find("over_quota"), std::string::npos);
}

TEST(Sender, StopEndsSendingAndWaitsForAnswers) {
  Options options = basic_options();
  options.rate = 1000;
  options.duration_ns = 100'000'000'000;
  Trial trial(options);
  trial.server.service_ns = 5'000'000;
  for (int i = 0; i < 3000; ++i) trial.step();
  trial.stop = static_cast<int>(Stop::kDrain);
  const TargetResults total = trial.run().total();
  EXPECT_GT(total.sent, 100u);
  EXPECT_EQ(total.answered, total.sent);
  EXPECT_LT(trial.sender->results().measured_ns, 50'000'000'000u);
}

TEST(Sender, TheDrainEndsTheWaitForTheSilent) {
  Options options = basic_options();
  options.rate = 100;
  options.duration_ns = 1'000'000'000;
  options.drain_ns = 500'000'000;
  options.retry.timeout_ns = 60'000'000'000;
  options.retry.max_tries = 1;
  Trial trial(options);
  trial.server.service_ns = 30'000'000'000;
  const uint64_t start_ns = trial.clock.now_ns();
  const TargetResults total = trial.run().total();
  EXPECT_EQ(total.lost, total.sent);
  EXPECT_LT(trial.clock.now_ns() - start_ns, 1'700'000'000u);
}

TEST(Sender, StopsAfterTheNumberOfRequests) {
  Options options = basic_options();
  options.max_requests = 37;
  options.rate = 10'000;
  Trial trial(options);
  EXPECT_EQ(trial.run().total().answered, 37u);
}

TEST(Damage, EveryKindIsWhatItSays) {
  const Options options = basic_options();
  Random random(11);
  const Bytes payload(100, std::byte{1});
  for (size_t kind = 0; kind < kNumDamages; ++kind) {
    const auto damage = static_cast<Damage>(kind);
    SCOPED_TRACE(damage_name(damage));
    for (int round = 0; round < 500; ++round) {
      const Target& target = options.targets[static_cast<size_t>(round) % 2];
      Bytes out(kMaxDamagedBytes);
      const size_t bytes =
          damaged(damage, target, 1, 1000, wire::PayloadKind::kTokensU16, payload, random, out);
      ASSERT_GE(bytes, 1u);
      out.resize(bytes);
      wire::Datagram datagram;
      const wire::ParseError error = wire::parse(out, datagram);
      switch (damage) {
        case Damage::kTag:
          ASSERT_EQ(error, wire::ParseError::kNone);
          ASSERT_FALSE(wire::verify_tag(target.credential.key, datagram));
          break;
        case Damage::kUnknownTenant:
        case Damage::kEpoch:
        case Damage::kHalfSent:
        case Damage::kChangedGeometry:
          ASSERT_EQ(error, wire::ParseError::kNone);
          ASSERT_TRUE(wire::verify_tag(target.credential.key, datagram));
          break;
        default:
          // A server refuses it as it stands, or as a type that only servers send.
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
  uint64_t arrived = 0;
  network.set_server([&](uint32_t flow, const Bytes& bytes) {
    ++arrived;
    wire::Datagram datagram;
    if (wire::parse(bytes, datagram) != wire::ParseError::kNone) return;
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
  EXPECT_GT(flows_of.size(), 3000u);
  for (const auto& [id, flows] : flows_of) EXPECT_EQ(flows.size(), 1u) << id;
  const double share = static_cast<double>(results.total_damaged()) /
                       static_cast<double>(results.total_damaged() + results.requests);
  EXPECT_NEAR(share, 0.25, 0.03);
  for (uint64_t count : results.damaged) EXPECT_GT(count, 10u);
  const auto json = flood_json(options, results);
  EXPECT_EQ(json["requests_sent"], results.requests);
}

}  // namespace
}  // namespace itif::loadgen
