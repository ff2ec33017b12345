// A complete itif-loadgen sender on a virtual clock, against a server that can stall, refuse and
// lose.
#include "tools/itif-loadgen/sender.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/client/loadgen_options.h"
#include "tests/unit/client/memory_network.h"
#include "tools/itif-loadgen/report.h"

namespace itif::loadgen {
namespace {

using client::test::Bytes;
using client::test::MemoryNetwork;
using client::test::NetworkFaults;

// A server that answers every request after a fixed time, except during a stall.
class StallingServer {
 public:
  StallingServer(VirtualClock& clock, MemoryNetwork& network, const Options& options)
      : clock_(clock), network_(network), options_(options) {}

  uint64_t service_ns = 100'000;
  uint64_t stall_from_ns = UINT64_MAX;
  uint64_t stall_until_ns = 0;
  uint16_t refuse_tenant = 0;
  wire::StatusCode refuse_status = wire::StatusCode::kOverQuota;
  uint64_t ignored = 0;  // requests not answered: every third of lossy_tenant
  uint32_t lossy_tenant = 0;

  void on_datagram(uint32_t flow, const Bytes& bytes) {
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.type == wire::Type::kHello)
      network_.send_to_client(flow, token_for(datagram.header, 1));
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
      header.status = refuse_status;
    } else {
      header.result_kind = wire::ResultKind::kLogits;
      header.fragment_bytes = wire::kDefaultFragmentBytes;
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

// Answers take 120 us. A request of one token has a deadline of 100 us, one of two tokens 200 us.
TEST(Sender, AnswersInTimeAndTheirUtilityAreCounted) {
  Options options = basic_options();
  options.rate = 2000;
  options.duration_ns = 2'000'000'000;
  options.lengths = {Lengths::Kind::kUniform, 1, 2};
  options.deadlines = {Deadlines::Kind::kByLength, 0, 100};
  Trial trial(options);
  uint64_t of_two_tokens = 0;
  trial.network.set_server([&](uint32_t flow, const Bytes& bytes) {
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(bytes, datagram), wire::ParseError::kNone);
    if (datagram.header.type == wire::Type::kRequest) {
      EXPECT_EQ(datagram.header.budget_us, 50 * datagram.header.total_bytes);
    }
    of_two_tokens += datagram.header.total_bytes == 4;
    trial.server.on_datagram(flow, bytes);
  });
  const Results& results = trial.run();
  const TargetResults total = results.total();
  EXPECT_EQ(total.answered, total.sent);
  EXPECT_GT(of_two_tokens, total.sent / 3);
  EXPECT_EQ(total.in_time, of_two_tokens);
  EXPECT_DOUBLE_EQ(total.utility, 0.5 * static_cast<double>(of_two_tokens));
  const auto json = to_json(options, results)["total"];
  EXPECT_EQ(json["in_time"], of_two_tokens);
  EXPECT_EQ(json["utility"], total.utility);
  EXPECT_NE(table(options, results).find("utility"), std::string::npos);
}

// Refusals arrive after 120 us: 20 us after a deadline of 100 us, and before one of 200 us.
TEST(Sender, RefusalsAtTheDeadlineAreTimedFromIt) {
  for (const auto& [budget_us, counts] : {std::pair{100u, true}, {200u, false}}) {
    Options options = basic_options();
    options.rate = 2000;
    options.duration_ns = 1'000'000'000;
    options.deadlines = {Deadlines::Kind::kFixed, budget_us};
    Trial trial(options);
    trial.server.refuse_tenant = 1;
    trial.server.refuse_status = wire::StatusCode::kDeadlineQueue;
    const Results& results = trial.run();
    ASSERT_GT(results.targets[0].refused, 100u);
    EXPECT_EQ(results.refusal_delay_ns.count(), counts ? results.targets[0].refused : 0);
    if (counts) {
      EXPECT_NEAR(static_cast<double>(results.refusal_delay_ns.percentile(50)), 20'000, 2'000);
      EXPECT_EQ(to_json(options, results)["refusal_delay"]["count"], results.targets[0].refused);
      EXPECT_NE(table(options, results).find("refused at the deadline"), std::string::npos);
    }
  }
}

TEST(Sender, WithoutADeadlineEveryAnswerIsInTime) {
  Options options = basic_options();
  options.max_requests = 100;
  options.lengths = {Lengths::Kind::kFixed, 4};
  Trial trial(options);
  const Results& results = trial.run();
  EXPECT_EQ(results.total().in_time, 100u);
  EXPECT_DOUBLE_EQ(results.total().utility, 25);
  EXPECT_EQ(table(options, results).find("utility"), std::string::npos);
}

// The server stalls for one second of ten. An open loop must report the waits of all requests due
// in that second, although most of them are sent late or answered in a burst.
TEST(Sender, StallShowsInThePercentiles) {
  Options options = basic_options();
  options.rate = 1000;
  options.arrivals = Arrivals::kConstant;
  options.duration_ns = 10'000'000'000;
  options.retry = client::RetryPolicy::none(5'000'000'000);
  options.max_in_flight = 50;  // far fewer than the requests due in the stall
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

// The first requests were once sent before the common start and counted as warm-up.
TEST(Sender, ClosedLoopCountsItsFirstRequests) {
  Options options = basic_options();
  options.arrivals = Arrivals::kClosed;
  options.concurrency = 8;
  options.max_requests = 40;
  Trial trial(options);
  const Results& results = trial.run();
  EXPECT_EQ(results.warmup_requests, 0u);
  EXPECT_EQ(results.total().sent, 40u);
  EXPECT_EQ(results.total().answered, 40u);
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

TEST(Report, TellsRepeatsAfterBusyFromThoseAfterSilence) {
  Options options = basic_options();
  Results results(options.targets.size());
  results.sent_again = 4;
  results.engine.retransmissions = 5;
  results.engine.silence_repeats = 3;
  results.engine.busy_repeats = 2;
  results.engine.busy = 3;
  const std::string text = table(options, results);
  EXPECT_NE(text.find("4 requests (after silence 3 times, after busy 2 times"), std::string::npos)
      << text;
}

TEST(Sender, StopEndsSendingAndWaitsForAnswers) {
  Options options = basic_options();
  options.rate = 1000;
  options.duration_ns = 100'000'000'000;
  Trial trial(options);
  trial.server.service_ns = 5'000'000;
  for (int i = 0; i < 3000; ++i) trial.step();
  trial.clock.advance_ns(5'000'000);  // some are due since the last step, as max_in_flight allows
  trial.stop = static_cast<int>(Stop::kDrain);
  const TargetResults total = trial.run().total();
  EXPECT_GT(total.sent, 100u);
  EXPECT_EQ(total.answered, total.sent);
  EXPECT_EQ(trial.sender->results().unsent, 0u);
  EXPECT_LT(trial.sender->results().measured_ns, 50'000'000'000u);
}

TEST(Sender, DrainEndsTheWaitForAnswers) {
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

// A sender over a socket to a port of the loopback interface that is closed.
struct SocketTrial {
  explicit SocketTrial(uint64_t duration_ns) : options(make_options(duration_ns)), pool(options) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
    close(fd);
    transport =
        client::SocketTransport::connect({.server = "127.0.0.1", .port = ntohs(address.sin_port)})
            .value();
    sender = Sender::create(clock, *transport,
                            {.options = &options,
                             .pool = &pool,
                             .stop = &stop,
                             .reachability = &reachability,
                             .sockets = transport.get(),
                             .session = 9,
                             .first_request = 0,
                             .start_ns = clock.now_ns() + 1'000'000})
                 .value();
  }
  static Options make_options(uint64_t duration_ns) {
    Options options = basic_options();
    options.rate = 50;
    options.duration_ns = duration_ns;
    options.warmup_ns = options.drain_ns = 0;
    return options;
  }

  SystemClock clock;
  Options options;
  PayloadPool pool;
  std::atomic<int> stop{0};
  Reachability reachability;
  std::unique_ptr<client::SocketTransport> transport;
  std::unique_ptr<Sender> sender;
};

TEST(Sender, GivesUpAtOnceIfNobodyListens) {
  SocketTrial trial(60'000'000'000);
  const uint64_t start_ns = trial.clock.now_ns();
  trial.sender->run();
  EXPECT_LT(trial.clock.now_ns() - start_ns, 10'000'000'000u);
  ASSERT_TRUE(trial.sender->failure());
  EXPECT_NE(trial.sender->failure()->message.find("nobody listens"), std::string::npos);
  EXPECT_TRUE(trial.reachability.has_failed);
}

TEST(Sender, GoesOnWhileAServerThatHasAnsweredRestarts) {
  SocketTrial trial(300'000'000);
  trial.reachability.has_answered = true;  // another thread's sender
  trial.sender->run();
  EXPECT_FALSE(trial.sender->failure());
  EXPECT_GT(trial.transport->stats().unreachable, 0u);
  EXPECT_GE(trial.sender->results().total().sent, 5u);
}

TEST(Sender, StopsAfterTheNumberOfRequests) {
  Options options = basic_options();
  options.max_requests = 37;
  options.rate = 10'000;
  Trial trial(options);
  EXPECT_EQ(trial.run().total().answered, 37u);
}

}  // namespace
}  // namespace itif::loadgen
