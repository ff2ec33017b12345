// The stages of requests: their stamps on a virtual clock, the figures per tenant, and traces.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "pipeline/stage_times.h"
#include "worker_fixture.h"

namespace itif::pipeline::test {
namespace {

using telemetry::Stage;

constexpr uint64_t kStageMs = 1'000'000;

class StagesTest : public WorkerTest {
 protected:
  StageFigures of_tenant() const { return tenant_stages({&worker, 1}, default_tenant().index); }
  uint64_t sum_ns(Stage stage) const { return of_tenant().sums.of(stage); }
  // Sends a request of 96 bytes in two pieces, and lets `ms` pass before each step.
  void answer_slowly(uint64_t id) {
    group->clock = &clock;
    group->cost_ns_per_batch = 16 * kStageMs;
    const std::vector<Bytes> pieces = datagrams(request(id, 96), token_payload(48));
    ASSERT_EQ(pieces.size(), 2u);
    send(pieces[0]);
    poll_worker();
    clock.advance_ns(1 * kStageMs);
    send(pieces[1]);
    poll_worker();
    clock.advance_ns(4 * kStageMs);
    stage->poll();
    clock.advance_ns(64 * kStageMs);
    poll_worker();
  }
};

class StagesOffTest : public StagesTest {
 protected:
  void configure() override { options.stamps_stages = false; }
};

TEST_F(StagesTest, EachTakesItsTimeAndTheirSumIsTheTotal) {
  answer_slowly(1);
  EXPECT_EQ(answers().size(), 1u);
  EXPECT_EQ(of_tenant().sums.num_requests, 1u);
  EXPECT_EQ(sum_ns(Stage::kReassembly), 1 * kStageMs);
  EXPECT_EQ(sum_ns(Stage::kIntake), 4 * kStageMs);
  EXPECT_EQ(sum_ns(Stage::kQueue), 0u);
  EXPECT_EQ(sum_ns(Stage::kCompute), 16 * kStageMs);
  EXPECT_EQ(sum_ns(Stage::kRespond), 64 * kStageMs);
  EXPECT_EQ(sum_ns(Stage::kSend), 0u);
  EXPECT_EQ(sum_ns(Stage::kTotal), 85 * kStageMs);
  answer_slowly(2);
  EXPECT_EQ(of_tenant().sums.num_requests, 2u);
  EXPECT_EQ(sum_ns(Stage::kTotal), 2 * 85 * kStageMs);
  const uint64_t p50_ns =
      TenantLatencyTable::percentile(of_tenant().counts[static_cast<size_t>(Stage::kCompute)], 50);
  EXPECT_NEAR(static_cast<double>(p50_ns), 16e6, 4e6);
  EXPECT_EQ(tenant_figures({&worker, 1}, default_tenant().index).latency_ns, 2 * 85 * kStageMs);
  StageSums sums;
  worker->tenant_stages().merge_into(default_tenant().index, sums);
  EXPECT_EQ(sums.num_requests, 2u);
  EXPECT_EQ(sums.of(Stage::kTotal), 2 * 85 * kStageMs);
  StageFigures since = of_tenant();
  since -= of_tenant();
  EXPECT_EQ(since.sums.num_requests, 0u);
  EXPECT_EQ(since.sums.of(Stage::kTotal), 0u);
}

// The group's thread computes each batch itself. Requests that come meanwhile wait for its end.
TEST_F(StagesTest, AWaitForTheRunningBatchIsQueue) {
  group->clock = &clock;
  group->cost_ns_per_batch = 16 * kStageMs;
  const auto trace = shared->tracer.start(kTenant, 4);
  ASSERT_TRUE(trace);
  const auto lend = [&](uint64_t id) {
    send(datagrams(request(id, 4), token_payload({5, 6}))[0]);
    poll_worker();
  };
  lend(1);
  group->on_forward = [&] {
    if (group->batches > 1) return;
    lend(2);
    clock.advance_ns(8 * kStageMs);
    lend(3);
  };
  stage->poll();
  lend(4);  // after the batch
  clock.advance_ns(2 * kStageMs);
  stage->poll();
  poll_worker();
  EXPECT_EQ(answers().size(), 4u);
  EXPECT_EQ(group->batches, 2u);
  EXPECT_EQ(sum_ns(Stage::kQueue), (24 + 16) * kStageMs);
  EXPECT_EQ(sum_ns(Stage::kIntake), 3 * 2 * kStageMs) << "the thread did something else";
  EXPECT_EQ(sum_ns(Stage::kCompute), (24 + 3 * 16) * kStageMs);
  EXPECT_EQ(sum_ns(Stage::kTotal), sum_ns(Stage::kQueue) + sum_ns(Stage::kIntake) +
                                       sum_ns(Stage::kCompute) + sum_ns(Stage::kRespond));
  const std::vector<TracedRequest> traced = shared->tracer.read(*trace, 0, 10)->requests;
  ASSERT_EQ(traced.size(), 4u);
  EXPECT_EQ(traced[0].times.free_ns, 0u);
  EXPECT_EQ(traced[1].times.free_ns, traced[0].times.done_ns);
  EXPECT_EQ(traced[2].times.free_ns, traced[0].times.done_ns);
  EXPECT_EQ(traced[3].times.free_ns, 0u);
}

// The transmit queue builds 128 datagrams per poll.
TEST_F(StagesTest, ALongResponseLeavesForSeveralPolls) {
  group->per_token = 4000;  // 48 tokens: 768,000 bytes
  for (const Bytes& piece : datagrams(request(1, 96), token_payload(48))) send(piece);
  poll_worker();
  stage->poll();
  poll_worker();
  EXPECT_EQ(of_tenant().sums.num_requests, 0u) << "it is on its way";
  uint64_t polls = 0;
  size_t frames = sent_frames().size();
  for (; of_tenant().sums.num_requests == 0 && polls < 100; ++polls) {
    clock.advance_ns(kStageMs);
    poll_worker();
    frames += sent_frames().size();
  }
  EXPECT_GT(polls, 2u);
  EXPECT_EQ(polls, (frames - 1) / net::TxBuffer::kCapacity);
  EXPECT_EQ(sum_ns(Stage::kSend), polls * kStageMs);
  EXPECT_EQ(sum_ns(Stage::kTotal), polls * kStageMs);
  // All workers' histograms are published after this response, too, which no answer follows.
  clock.advance_ns(1000 * kStageMs);
  poll_worker();
  const auto published = stage_histograms({&worker, 1})[static_cast<size_t>(Stage::kSend)];
  EXPECT_EQ(published.count(), 1u);
}

// A worker lends eight requests at once.
TEST_F(StagesTest, AllRequestsOfAPollAreLentInIt) {
  constexpr uint64_t kRequests = 20;
  for (uint64_t id = 1; id <= kRequests; ++id)
    send(datagrams(request(id, 4), token_payload({5, 6}))[0]);
  poll_worker();
  EXPECT_EQ(stage->inbox().num_waiting(), kRequests);
  clock.advance_ns(4 * kStageMs);
  run();
  EXPECT_EQ(answers().size(), kRequests);
  EXPECT_EQ(of_tenant().sums.num_requests, kRequests);
  EXPECT_EQ(sum_ns(Stage::kVerify), 0u);
}

TEST_F(StagesTest, RepeatsAndRefusalsAreNotCounted) {
  const Bytes datagram = datagrams(request(1, 4), token_payload({5, 6}))[0];
  send(datagram);
  run();
  send(datagram);  // answered from the cache
  run();
  send(datagrams(request(2, 4096), token_payload(2048))[0]);  // never completes
  poll_worker();
  clock.advance_ns(options.reassembly.timeout_ns + kStageMs);
  run();
  EXPECT_EQ(answers().size(), 3u + figures().contexts);
  EXPECT_EQ(of_tenant().sums.num_requests, 1u);
}

TEST_F(StagesOffTest, KeepsLatenciesOnly) {
  ASSERT_TRUE(shared->tracer.start(kTenant, 10));
  answer_slowly(1);
  EXPECT_EQ(answers().size(), 1u);
  EXPECT_EQ(of_tenant().sums.num_requests, 0u);
  EXPECT_EQ(tenant_figures({&worker, 1}, default_tenant().index).latency_ns, 85 * kStageMs);
  EXPECT_EQ(tenant_figures({&worker, 1}, default_tenant().index).responses, 1u);
  EXPECT_EQ(shared->tracer.read(1, 0, 10)->requests.size(), 0u);
}

TEST_F(StagesTest, AWorkerIsBusyWhileItFindsWork) {
  poll_worker();
  clock.advance_ns(kStageMs);
  poll_worker();
  EXPECT_EQ(figures().busy_ns, 0u);
  send(datagrams(request(1, 4), token_payload({5, 6}))[0]);
  poll_worker();
  clock.advance_ns(kStageMs);
  poll_worker();
  clock.advance_ns(kStageMs);
  poll_worker();
  EXPECT_EQ(figures().busy_ns, kStageMs);
}

TEST_F(StagesTest, ATraceHasTheNextRequestsOfItsTenant) {
  answer_slowly(1);
  clock.advance_ns(1);
  const auto trace = shared->tracer.start(kTenant, 2);
  ASSERT_TRUE(trace) << trace.error().message;
  for (uint64_t id = 2; id < 5; ++id) answer_slowly(id);
  const auto reading = shared->tracer.read(*trace, 0, 10);
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->tenant_id, kTenant);
  EXPECT_EQ(reading->wanted, 2u);
  ASSERT_EQ(reading->requests.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const TracedRequest& one = reading->requests[i];
    EXPECT_EQ(one.request_id, 2 + i);
    EXPECT_EQ(one.session, 77u);
    EXPECT_EQ(one.num_tokens, 48u);
    EXPECT_EQ(one.status, wire::StatusCode::kOk);
    const request::Times& t = one.times;
    EXPECT_EQ(t.complete_ns - t.arrival_ns, 1 * kStageMs);
    EXPECT_EQ(t.verified_ns, t.complete_ns);
    EXPECT_EQ(t.queued_ns - t.verified_ns, 4 * kStageMs);
    EXPECT_EQ(t.chosen_ns, t.queued_ns);
    EXPECT_EQ(t.planned_ns, t.queued_ns);
    EXPECT_EQ(t.launched_ns, t.queued_ns);
    EXPECT_EQ(t.done_ns - t.launched_ns, 16 * kStageMs);
    EXPECT_EQ(t.last_out_ns - t.done_ns, 64 * kStageMs);
  }
  EXPECT_EQ(shared->tracer.read(*trace, 1, 10)->requests.size(), 1u);
  EXPECT_EQ(shared->tracer.read(*trace, 0, 1)->requests.size(), 1u);
  EXPECT_EQ(shared->tracer.read(*trace, 2000, UINT32_MAX)->requests.size(), 0u);
}

TEST_F(StagesTest, ATraceHasRequestsThatAreRefusedLater) {
  const auto trace = shared->tracer.start(kTenant, 2);
  ASSERT_TRUE(trace);
  send(datagrams(request(1, 96), token_payload(48))[0]);  // never completes
  poll_worker();
  clock.advance_ns(options.reassembly.timeout_ns + kStageMs);
  run();
  const auto reading = shared->tracer.read(*trace, 0, 10);
  ASSERT_EQ(reading->requests.size(), 1u);
  EXPECT_EQ(reading->requests[0].status, wire::StatusCode::kDeadlineReassembly);
  EXPECT_EQ(reading->requests[0].times.complete_ns, 0u);
  EXPECT_GT(reading->requests[0].times.last_out_ns, options.reassembly.timeout_ns);
}

TEST(StageTimes, PointsThatWereNotStampedTakeNoTime) {
  const auto stages = stage_times({.arrival_ns = 100,
                                   .complete_ns = 110,
                                   .queued_ns = 150,
                                   .chosen_ns = 140,  // read by another thread
                                   .done_ns = 200,
                                   .first_out_ns = 230,
                                   .last_out_ns = 300});
  const std::array<uint64_t, telemetry::kNumRequestStages> expected = {10, 0,  40, 0,  0,
                                                                       0,  50, 30, 70, 200};
  EXPECT_EQ(stages, expected);
}

TEST(StageTimes, TheWaitForTheThreadAndTheWaitInTheQueueAreOneStage) {
  const request::Times times = {.arrival_ns = 100,
                                .complete_ns = 110,
                                .verified_ns = 120,
                                .free_ns = 150,
                                .queued_ns = 151,
                                .chosen_ns = 171,
                                .planned_ns = 172,
                                .launched_ns = 174,
                                .done_ns = 184,
                                .first_out_ns = 187,
                                .last_out_ns = 200};
  const std::array<uint64_t, telemetry::kNumRequestStages> expected = {10, 10, 1, 50, 1,
                                                                       2,  10, 3, 13, 100};
  EXPECT_EQ(stage_times(times), expected);
}

TracedRequest ended_at(uint64_t arrival_ns, uint64_t id = 0) {
  TracedRequest request;
  request.request_id = request.times.done_ns = id;
  request.times.arrival_ns = arrival_ns;
  return request;
}

TEST(Tracer, OneTraceAtATimeUntilItIsStoppedOrAbandoned) {
  VirtualClock clock(1000);
  Tracer tracer(clock);
  tracer.add(5, ended_at(2000));  // nobody traces
  EXPECT_FALSE(tracer.read(0, 0, 1)) << "there was none";
  EXPECT_FALSE(tracer.stop(0));
  const auto first = tracer.start(5, 3);
  ASSERT_TRUE(first);
  tracer.add(6, ended_at(2000));  // another tenant
  tracer.add(5, ended_at(999));   // arrived before
  tracer.add(5, ended_at(1000));
  EXPECT_TRUE(tracer.wants(5));
  EXPECT_FALSE(tracer.wants(6));
  EXPECT_EQ(tracer.read(*first, 0, 10)->requests.size(), 1u);
  const auto refused = tracer.start(6, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find("tenant 5 is being traced"), std::string::npos);
  clock.advance_ns(Tracer::kAbandonedNs);
  const auto second = tracer.start(6, 1);
  ASSERT_TRUE(second);
  EXPECT_FALSE(tracer.read(*first, 0, 10)) << "it was replaced";
  tracer.add(5, ended_at(clock.now_ns()));
  tracer.add(6, ended_at(clock.now_ns()));
  tracer.add(6, ended_at(clock.now_ns()));  // full
  EXPECT_EQ(tracer.read(*second, 0, 10)->requests.size(), 1u);
  ASSERT_TRUE(tracer.stop(*second));
  EXPECT_FALSE(tracer.stop(*second));
  EXPECT_FALSE(tracer.wants(6));
  EXPECT_TRUE(tracer.start(6, Tracer::kMaxRequests));
}

// Workers add while control starts, reads and stops traces: every trace gets full, and each record
// is whole, of the trace's tenant, and there once. The traces are short, so that many end while a
// worker is in the middle of add().
TEST(Tracer, WorkersAddWhileTracesChange) {
  constexpr uint32_t kWanted = 8;
  constexpr uint64_t kRunNs = 2'000'000'000, kFullNs = 5'000'000'000;
  SystemClock clock;
  Tracer tracer(clock);
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (uint64_t w = 0; w < 3; ++w)
    workers.emplace_back([&, w] {
      for (uint64_t n = 0; !stop.load(); ++n) {
        const uint32_t tenant = n % 2 == 0 ? 1 : 2;
        tracer.add(tenant, ended_at(UINT64_MAX, (n << 2 | w) << 2 | tenant));
      }
    });
  const uint64_t begin_ns = clock.now_ns();
  for (uint32_t turn = 0; clock.now_ns() - begin_ns < kRunNs && !HasFailure(); ++turn) {
    const uint32_t tenant = 1 + turn % 2;
    const auto trace = tracer.start(tenant, kWanted);
    EXPECT_TRUE(trace) << trace.error().message;
    const uint64_t start_ns = clock.now_ns();
    std::set<uint64_t> ids;
    while (ids.size() < kWanted && clock.now_ns() - start_ns < kFullNs) {
      const auto reading = tracer.read(*trace, static_cast<uint32_t>(ids.size()), kWanted);
      for (const TracedRequest& one : reading->requests) {
        EXPECT_EQ(one.request_id & 3, tenant);
        EXPECT_EQ(one.request_id, one.times.done_ns);
        EXPECT_TRUE(ids.insert(one.request_id).second);
      }
      std::this_thread::yield();
    }
    EXPECT_EQ(ids.size(), kWanted) << "turn " << turn;
    // Half of the traces end before they are full.
    EXPECT_TRUE(tracer.stop(*trace));
    const auto brief = tracer.start(tenant, kWanted);
    EXPECT_TRUE(brief);
    EXPECT_TRUE(tracer.stop(*brief));
  }
  stop.store(true);
  for (std::thread& worker : workers) worker.join();
}

}  // namespace
}  // namespace itif::pipeline::test
