// Whole simulations: outcomes, determinism, load and the link's faults.
#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "world.h"

namespace itif::sim {
namespace {

using test::run;
using test::small_scenario;

TEST(Simulation, AnswersALightLoadInFull) {
  Scenario s = small_scenario();
  s.passes_marks = true;
  s.tenants = {{.name = "a"}, {.name = "b", .share = 3}};
  const Results r = run(s);
  const TenantResults all = r.total();
  EXPECT_GT(all.sent, 400u);
  EXPECT_EQ(all.answered, all.sent);
  EXPECT_EQ(all.in_time, all.sent);
  EXPECT_EQ(r.wrong_answers, 0u);
  EXPECT_NEAR(static_cast<double>(r.tenants[1].sent) / static_cast<double>(r.tenants[0].sent), 3,
              1);
  // Two delays of the link, and at least one batch.
  EXPECT_GE(all.latency_ns.min(), 2 * s.link.delay_ns);
  EXPECT_LT(all.latency_ns.percentile(50), 5'000'000u);
  EXPECT_EQ(r.padding(), 0) << "packed pads nothing";
}

// An image of 150,536 bytes arrives in some hundred datagrams and has 197 tokens.
TEST(Simulation, AnswersImages) {
  Scenario s = small_scenario();
  s.model = {.preset = "vit-tiny"};
  s.arrivals.rate = 200;
  const Results r = run(s);
  const TenantResults all = r.total();
  EXPECT_GT(all.sent, 150u);
  EXPECT_EQ(all.answered, all.sent);
  EXPECT_EQ(all.tokens, 197 * all.answered);
  EXPECT_EQ(r.tokens, 197 * r.requests);
  EXPECT_GT(r.link.sent, 100 * all.sent);
  // The link's rate bounds the latency: 150,536 bytes at 10 Gb/s, and two delays.
  EXPECT_GT(all.latency_ns.min(), 150'536 * 8 / 10 + 2 * s.link.delay_ns);
}

// GSLICE's Figure 12a: each component alone answers more than none.
TEST(Simulation, OverlapAndZeroCopyHideTheHost) {
  Scenario s = small_scenario();
  s.model = {.preset = "vit-tiny"};
  s.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 8};
  s.batching.max_requests = 1;
  s.device.inputs = "copy";
  s.device.notice_ns = 50'000;
  const auto rate = [&](const char* overlap, const char* inputs) {
    s.batching.overlap = overlap;
    s.device.inputs = inputs;
    const Results r = run(s);
    return r.per_second(static_cast<double>(r.total().answered));
  };
  const double none = rate("off", "copy"), zero_copy = rate("off", "gather");
  const double overlap = rate("on", "copy");
  EXPECT_GT(zero_copy, 1.02 * none);
  EXPECT_GT(overlap, 1.1 * none);
  EXPECT_GT(rate("auto", "gather"), zero_copy);
}

TEST(Simulation, OneSeedGivesOneEventLog) {
  Scenario s = small_scenario();
  s.link.loss = s.link.duplication = s.link.corruption = 0.05;
  s.link.jitter_ns = 300'000;
  s.client.auth = "full";
  const Results first = run(s, true), second = run(s, true);
  EXPECT_GT(first.log_events, 1000u);
  EXPECT_EQ(first.log_events, second.log_events);
  EXPECT_EQ(first.log_hash, second.log_hash);
  s.seed = 2;
  EXPECT_NE(run(s, true).log_hash, first.log_hash);
}

TEST(Simulation, SurvivesABadLink) {
  Scenario s = small_scenario();
  s.passes_marks = true;
  s.client.auth = "full";
  s.client.tries = 10;
  s.link.loss = s.link.duplication = s.link.corruption = 0.1;
  s.link.jitter_ns = 1'000'000;
  const Results r = run(s);
  EXPECT_GT(r.link.lost, 50u);
  EXPECT_GT(r.link.damaged, 50u);
  EXPECT_GT(r.engine.retransmissions, 50u);
  EXPECT_EQ(r.wrong_answers, 0u);
  EXPECT_GE(r.total().answered + 5, r.total().sent);
}

// Twice the load takes twice the device's time while it is not saturated by batching.
TEST(Simulation, OverloadIsRefusedOrLate) {
  Scenario s = small_scenario();
  s.model = {.preset = "bert-base"};
  s.batching.max_requests = 8;
  s.deadlines = {.kind = DeadlineKind::kFixed, .from_ns = 50'000'000};
  s.arrivals.rate = 20'000;
  const Results r = run(s);
  const TenantResults all = r.total();
  EXPECT_GT(r.device_use(), 0.9);
  EXPECT_LT(all.in_time, all.sent / 2);
  EXPECT_GT(all.refused, all.sent / 4);
  EXPECT_EQ(all.sent, all.answered + all.refused + all.lost);
  EXPECT_LE(r.batch_size(), 8);
}

// At several times the capacity as many requests are in time as a closed loop answers, beside a
// quiet tenant, too, all of whose requests are in time.
TEST(Simulation, GoodputStaysUnderOverload) {
  Scenario s = small_scenario();
  s.model = {.preset = "bert-base"};
  s.duration_ns = 3'000'000'000;
  s.lengths = {.kind = LengthKind::kUniform, .from = 4, .to = 64};
  s.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 64};
  const double peak = static_cast<double>(run(s).total().answered);
  s.deadlines = {.kind = DeadlineKind::kFixed, .from_ns = 500'000'000};
  for (const double factor : {2.0, 10.0}) {
    s.arrivals = {.kind = ArrivalKind::kPoisson, .rate = factor * peak / 3};
    s.tenants = {{.name = "alone"}};
    EXPECT_GT(static_cast<double>(run(s).total().in_time), 0.95 * peak) << factor;
    const double quiet = 50 / s.arrivals.rate;
    s.tenants = {{.name = "quiet", .share = quiet}, {.name = "busy", .share = 1 - quiet}};
    const Results beside = run(s);
    EXPECT_GT(static_cast<double>(beside.total().in_time), 0.95 * peak) << factor;
    EXPECT_GT(beside.tenants[0].sent, 100u);
    EXPECT_EQ(beside.tenants[0].in_time, beside.tenants[0].sent);
    // The batch that runs when it arrives, 4 ms at most, and its own.
    EXPECT_LT(beside.tenants[0].latency_ns.percentile(99), 6'000'000u);
  }
}

// The same where a batch costs much apart from its tokens. A quiet tenant made batches so small
// that they were mostly fixed cost, and half of the goodput was lost.
TEST(Simulation, AQuietTenantCostsLittleGoodputWhateverABatchCosts) {
  for (const uint64_t overhead_ns : {3'000'000, 20'000'000}) {
    Scenario s = small_scenario();
    s.model = {.preset = "bert-base"};
    s.device.batch_overhead_ns = overhead_ns;
    s.duration_ns = 6'000'000'000;
    s.warmup_ns = 2'000'000'000;
    s.lengths = {.kind = LengthKind::kUniform, .from = 4, .to = 64};
    s.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 64};
    const double peak = static_cast<double>(run(s).total().answered);
    s.deadlines = {.kind = DeadlineKind::kFixed, .from_ns = 1'000'000'000};
    s.arrivals = {.kind = ArrivalKind::kPoisson, .rate = 2 * peak / 4};
    const double quiet = 30 / s.arrivals.rate;
    s.tenants = {{.name = "quiet", .share = quiet}, {.name = "busy", .share = 1 - quiet}};
    const Results beside = run(s);
    EXPECT_GT(static_cast<double>(beside.total().in_time), 0.85 * peak) << overhead_ns;
    EXPECT_EQ(beside.tenants[0].in_time, beside.tenants[0].sent);
    EXPECT_LT(beside.tenants[0].latency_ns.percentile(99), 3 * overhead_ns + 6'000'000);
  }
}

// The same for a large model, whose request alone takes a sixth of a full batch's time. Its batches
// had a sixth of the requests, and two fifths of the goodput were lost.
TEST(Simulation, AQuietTenantCostsLittleGoodputOfALargeModel) {
  Scenario s = small_scenario();
  s.model = {.preset = "bert-base", .layers = 48};
  s.duration_ns = 6'000'000'000;
  s.warmup_ns = 2'000'000'000;
  s.lengths = {.kind = LengthKind::kUniform, .from = 4, .to = 64};
  s.deadlines = {.kind = DeadlineKind::kFixed, .from_ns = 500'000'000};
  s.arrivals = {.kind = ArrivalKind::kPoisson, .rate = 5000};  // twice the capacity
  const double peak = static_cast<double>(run(s).total().in_time);
  const double quiet = 50 / s.arrivals.rate;
  s.tenants = {{.name = "quiet", .share = quiet}, {.name = "busy", .share = 1 - quiet}};
  const Results beside = run(s);
  EXPECT_GT(static_cast<double>(beside.total().in_time), 0.85 * peak);
  EXPECT_EQ(beside.tenants[0].in_time, beside.tenants[0].sent);
  EXPECT_LT(beside.tenants[0].latency_ns.percentile(99), 25'000'000u);
}

// Twice the capacity, without deadlines: no answer is much older than the longest wait.
TEST(Simulation, NoRequestWaitsLongerThanMaxWait) {
  Scenario s = small_scenario();
  s.model = {.preset = "bert-base"};
  s.duration_ns = 3'000'000'000;
  s.lengths = {.kind = LengthKind::kUniform, .from = 4, .to = 64};
  s.arrivals.rate = 20'000;
  s.batching.max_wait_ns = 200'000'000;
  for (const char* policy : {"fair", "fcfs", "lcfs", "sjf", "edf", "das", "slotted_das"}) {
    s.batching.scheduler = policy;
    const TenantResults all = run(s).total();
    EXPECT_GT(all.answered, 15'000u) << policy;
    EXPECT_LT(all.latency_ns.max(), 250'000'000u) << policy;
    EXPECT_EQ(all.sent, all.answered + all.refused + all.lost) << policy;
  }
}

// Utility is the sum of 1 / tokens of the answers in time: with equal lengths, answers / length.
TEST(Simulation, UtilityFollowsItsDefinition) {
  Scenario s = small_scenario();
  s.lengths = {.kind = LengthKind::kUniform, .from = 16, .to = 16};
  const TenantResults all = run(s).total();
  EXPECT_DOUBLE_EQ(all.utility, static_cast<double>(all.in_time) / 16);
}

TEST(Simulation, NaivePlansArePadded) {
  Scenario s = small_scenario();
  s.model = {.preset = "bert-base"};
  s.arrivals.rate = 3000;
  s.lengths = {.kind = LengthKind::kUniform, .from = 3, .to = 100};
  s.batching.planner = "naive";
  EXPECT_GT(run(s).padding(), 0.1);
}

// Planners that need cost tables get them from the profiler, run on the simulated device.
TEST(Simulation, ProfilesTheDeviceForPlanners) {
  Scenario s = small_scenario();
  s.arrivals.rate = 3000;
  s.tenants = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  for (const char* planner : {"turbo", "itif", "joint", "auto"}) {
    s.batching.planner = planner;
    const Results r = run(s);
    EXPECT_EQ(r.total().answered, r.total().sent) << planner;
    EXPECT_LE(r.busy_ns, r.simulated_ns) << planner << ": profiling is not the load's";
  }
}

TEST(Simulation, ClosedLoadKeepsItsConcurrency) {
  Scenario s = small_scenario();
  s.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 1};
  const Results one = run(s);
  EXPECT_EQ(one.batch_size(), 1);
  s.arrivals.concurrency = 16;
  const Results many = run(s);
  EXPECT_GT(many.batch_size(), 2);
  EXPECT_GT(many.total().answered, 2 * one.total().answered);
}

// Little's law: requests in flight = throughput · latency, for any queue.
TEST(Simulation, FollowsLittlesLaw) {
  Scenario s = small_scenario();
  s.duration_ns = 5'000'000'000;
  s.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 32};
  const Results r = run(s);
  const TenantResults all = r.total();
  const double in_flight =
      static_cast<double>(all.answered) / r.seconds() * all.latency_ns.mean() / 1e9;
  EXPECT_NEAR(in_flight, 32, 32 * 0.03);
}

}  // namespace
}  // namespace itif::sim
