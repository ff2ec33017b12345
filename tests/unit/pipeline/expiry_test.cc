// Requests whose deadline passes while they wait for a group, on virtual time: the worker refuses
// them at once, whatever the group does.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "base/random.h"
#include "worker_fixture.h"

namespace itif::pipeline::test {
namespace {

using telemetry::Stage;
using wire::StatusCode;
using wire::Type;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kPollNs = 50'000;  // the longest sleep of an idle worker
constexpr uint64_t kLatestNs = kMs;   // after the deadline

class ExpiryTest : public LateWorkerTest {
 protected:
  Bytes one(uint64_t id, uint32_t budget_us = 0, uint16_t flags = 0) {
    wire::Header header = request(id, 2);
    header.budget_us = budget_us;
    header.flags = flags;
    return datagrams(header, token_payload({9}))[0];
  }
  // Only the worker runs, as while a batch keeps the group's thread busy. Returns the first answer.
  std::optional<Answer> wait_for_answer(uint64_t longest_ns) {
    const uint64_t start_ns = clock.now_ns();
    while (clock.now_ns() - start_ns <= longest_ns) {
      poll_worker();
      const auto got = answers();
      if (!got.empty()) return got.front();
      clock.advance_ns(kPollNs);
    }
    return std::nullopt;
  }
  StatusCode wait_for_status() {
    const std::optional<Answer> answer = wait_for_answer(5 * kMs);
    return answer ? answer->header.status : StatusCode::kOk;
  }
  TenantFigures tenant() const { return tenant_figures({&worker, 1}, default_tenant().index); }
  uint64_t refused(StatusCode status) const {
    return tenant().statuses[static_cast<size_t>(status)];
  }
  void end_batches() {
    device.holds = device.reads = false;
    run();
  }
};

TEST_F(ExpiryTest, TheRefusalLeavesWithinAMillisecondOfTheDeadline) {
  Random random(5);
  for (uint64_t id = 1000; id < 1002; ++id) {  // as many batches as can run
    send(one(id));
    begin();
  }
  ASSERT_EQ(stage->num_executing(), 2u);
  for (uint64_t id = 1; id <= 80; ++id) {
    const uint64_t budget_ns = 1000 * (100 + random.below(20'000));
    clock.advance_ns(random.below(kMs));
    send(one(id, static_cast<uint32_t>(budget_ns / 1000)));
    const uint64_t arrival_ns = clock.now_ns();
    poll_worker();
    if (id % 2 == 0) stage->poll();  // odd: it stays in the ring
    const std::optional<Answer> answer = wait_for_answer(budget_ns + 2 * kMs);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->header.status, StatusCode::kDeadlineQueue);
    EXPECT_EQ(answer->header.request_id, id);
    EXPECT_GE(clock.now_ns(), arrival_ns + budget_ns);
    EXPECT_LE(clock.now_ns(), arrival_ns + budget_ns + kLatestNs);
  }
  EXPECT_EQ(stage->num_executing(), 2u);
  const Histogram expired = stage_histograms({&worker, 1})[static_cast<size_t>(Stage::kExpire)];
  EXPECT_GT(expired.count(), 70u);  // the last are not published yet
  EXPECT_LE(expired.max(), kLatestNs);
}

TEST_F(ExpiryTest, AnExpiredRequestHasOneOutcomeAndIsReleasedByTheGroup) {
  send(one(1, 3000));
  EXPECT_EQ(wait_for_status(), StatusCode::kDeadlineQueue);
  EXPECT_EQ(buffers_in_use(), 1u) << "the group may still read the packet";
  EXPECT_EQ(lease->num_in_flight(), 1u);
  EXPECT_EQ(figures().contexts, 1u);
  run();
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(group->batches, 0u);
  EXPECT_EQ(buffers_in_use(), 0u);
  EXPECT_EQ(lease->num_in_flight(), 0u);
  EXPECT_EQ(figures().contexts, 0u);
  EXPECT_EQ(refused(StatusCode::kDeadlineQueue), 1u);
  EXPECT_EQ(tenant().total_statuses(), 1u);
  EXPECT_EQ(tenant().deadline_missed, 1u);
  EXPECT_EQ(tenant().requests, 1u);
  EXPECT_EQ(tenant().responses, 0u);
  EXPECT_EQ(stage->counters().refused.read(), 1u);
}

TEST_F(ExpiryTest, ARepeatGetsTheSameRefusal) {
  for (const uint16_t flags : {uint16_t{0}, static_cast<uint16_t>(wire::kFlagNoCache)}) {
    const uint64_t id = 1 + flags;
    send(one(id, 3000, flags));
    EXPECT_EQ(wait_for_status(), StatusCode::kDeadlineQueue);
    for (const bool is_given_back : {false, true}) {
      if (is_given_back) run();
      if (is_given_back && flags == wire::kFlagNoCache) continue;  // it would run again
      send(one(id, 3000, static_cast<uint16_t>(flags | wire::kFlagRetry)));
      poll_worker();
      const auto got = answers();
      ASSERT_EQ(got.size(), 1u) << is_given_back;
      EXPECT_EQ(got[0].header.type, Type::kStatus);
      EXPECT_EQ(got[0].header.status, StatusCode::kDeadlineQueue);
    }
  }
  EXPECT_EQ(refused(StatusCode::kDeadlineQueue), 2u) << "repeats are not counted";
}

// The group has taken it: its packets are being read, and a late answer is still sent.
TEST_F(ExpiryTest, ARunningRequestIsAnsweredAndKeepsItsPackets) {
  device.reads = true;
  send(one(1, 3000));
  begin();
  EXPECT_EQ(stage->num_executing(), 1u);
  clock.advance_ns(10 * kMs);
  for (int i = 0; i < 3; ++i) poll_worker(), stage->poll();
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(buffers_in_use(), 1u);
  end_batches();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.type, Type::kResponse);
  EXPECT_EQ(tenant().deadline_missed, 0u);
}

TEST_F(ExpiryTest, ARemovedTenantsRequestIsRefusedWithItsKey) {
  send(one(1, 3000));
  poll_worker();
  publish({});
  EXPECT_EQ(wait_for_status(), StatusCode::kDeadlineQueue);
  EXPECT_EQ(lease->num_in_flight(), 1u) << "its slot stays in use";
  run();
  EXPECT_EQ(lease->num_in_flight(), 0u);
}

TEST_F(ExpiryTest, ARequestWithoutADeadlineWaits) {
  send(one(1));
  EXPECT_FALSE(wait_for_answer(2'000 * kMs));
  end_batches();
  EXPECT_EQ(answers().size(), 1u);
}

// Requests, budgets, batches and time in any order. Every request has one outcome.
TEST_F(ExpiryTest, EveryRequestHasOneOutcomeInAnyOrder) {
  Random random(23);
  uint64_t id = 0;
  std::map<uint64_t, int> outcomes;
  uint64_t expired = 0;
  const auto take_answers = [&] {
    for (const Answer& answer : answers()) {
      if (answer.header.type == Type::kResponse && answer.header.offset != 0) continue;
      ++outcomes[answer.header.request_id];
      expired += answer.header.status == StatusCode::kDeadlineQueue ||
                 answer.header.status == StatusCode::kDeadlineLaunch;
    }
  };
  for (int turn = 0; turn < 20'000; ++turn) {
    switch (random.below(5)) {
      case 0:
        send(one(++id, random.below(3) ? 1 + static_cast<uint32_t>(random.below(4000)) : 0));
        break;
      case 1: device.holds = random.below(3) != 0; break;
      case 2: stage->poll(); break;
      default: poll_worker(); break;
    }
    clock.advance_ns(random.below(200'000));
    take_answers();
  }
  end_batches();
  take_answers();
  EXPECT_EQ(outcomes.size(), id);
  for (const auto& [request, count] : outcomes) EXPECT_EQ(count, 1) << request;
  EXPECT_EQ(tenant().deadline_missed, expired);
  EXPECT_EQ(tenant().responses + tenant().total_statuses(), id);
  EXPECT_GT(expired, 500u);
  EXPECT_GT(tenant().responses, 500u);
}

// The group's thread takes requests while the worker lets them expire.
class ExpiryRaceTest : public ExpiryTest {
  void configure() override {}
};

TEST_F(ExpiryRaceTest, EveryRequestHasOneOutcomeOnTwoThreads) {
  constexpr uint64_t kRequests = 20'000;
  constexpr uint32_t kInFlight = 48;
  group->on_forward = [] { std::this_thread::sleep_for(std::chrono::microseconds(20)); };
  stage->start();
  Random random(3);
  std::map<uint64_t, int> outcomes;
  uint64_t sent = 0;
  while (outcomes.size() < kRequests) {
    for (; sent < kRequests && sent - outcomes.size() < kInFlight; ++sent)
      send(one(sent, 1 + static_cast<uint32_t>(random.below(3000))));
    poll_worker();
    clock.advance_ns(20'000);
    for (const Answer& answer : answers()) ++outcomes[answer.header.request_id];
  }
  while (lease->num_in_flight() > 0) poll_worker();
  stage->stop();
  for (const auto& [request, count] : outcomes) EXPECT_EQ(count, 1) << request;
  EXPECT_EQ(tenant().responses + tenant().total_statuses(), kRequests);
  EXPECT_EQ(tenant().deadline_missed + refused(StatusCode::kOverloaded), tenant().total_statuses());
  EXPECT_GT(tenant().responses, 0u);
  EXPECT_GT(tenant().deadline_missed, 0u);
  EXPECT_EQ(stage->counters().requests.read(), tenant().responses);
}

// A synchronous device: the group's thread is inside a batch when the request arrives.
TEST_F(ExpiryRaceTest, ARequestThatTheRunningBatchMakesLateIsRefusedOnArrival) {
  group->clock = &clock;
  group->cost_ns_per_batch = 20 * kMs;
  uint64_t id = 0;
  const auto run_one = [&] {
    send(one(++id));
    run();
    answers();
  };
  for (int i = 0; i < 5; ++i) run_one();  // the group learns its cost
  group->on_forward = [&] {
    group->on_forward = nullptr;
    for (const uint32_t budget_us : {15'000u, 100'000u}) send(one(++id, budget_us));
    poll_worker();
  };
  send(one(++id));
  poll_worker();
  stage->poll();
  auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.status, StatusCode::kDeadlineLaunch);
  EXPECT_EQ(refused(StatusCode::kDeadlineLaunch), 1u);
  run();
  got = answers();
  ASSERT_EQ(got.size(), 2u);
  for (const Answer& answer : got) EXPECT_EQ(answer.header.type, Type::kResponse);
}

}  // namespace
}  // namespace itif::pipeline::test
