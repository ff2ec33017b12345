// Tenants with a latency objective go first, and the others keep their share.
#include "sched/urgent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "sched/objectives.h"

namespace itif::sched {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr BatchLimits kLimits{.max_tokens = 256, .max_requests = 16};

class UrgentTest : public testing::Test {
 protected:
  request::Request& push(uint32_t slot, uint32_t tokens, uint64_t slo_ns = 0,
                         uint64_t arrived_ns = 0) {
    request::Request& r = requests.emplace_back();
    r.slot = slot;
    r.num_tokens = tokens;
    r.slo_ns = slo_ns;
    r.complete_ns = arrived_ns;
    EXPECT_TRUE(queue.push(&r, arrived_ns));
    return r;
  }
  // One turn of the executor. Batches take 0.1 ms a token.
  uint64_t turn(uint64_t now_ns) {
    batch.clear();
    set_objectives(queue, now_ns, false);
    BatchLimits limits = kLimits;
    const uint64_t time_ns = urgent.select(queue, limits, now_ns, batch);
    num_first = batch.size();
    if (!batch.empty())
      limits.max_tokens = std::min(
          limits.max_tokens,
          static_cast<uint32_t>(std::min(time_ns, kMillisecond * 1000) * 10 / kMillisecond));
    if (batch.empty() || room(limits, batch) > 0) fair->select(queue, limits, now_ns, batch);
    urgent.chosen(queue, batch);
    return time_ns;
  }
  size_t count(uint32_t slot) const {
    return static_cast<size_t>(std::ranges::count(batch, slot, &request::Request::slot));
  }

  std::deque<request::Request> requests;
  GroupQueue queue{{.max_requests = 1000, .max_tenant_requests = 1000, .max_slots = 8}};
  std::unique_ptr<Scheduler> fair = make_scheduler("fair").value();
  Urgent urgent{8};
  std::vector<request::Request*> batch;
  size_t num_first = 0;
};

TEST_F(UrgentTest, WithoutObjectivesTheSchedulerDecidesAlone) {
  for (int i = 0; i < 10; ++i) push(i % 3, 32);
  EXPECT_EQ(turn(0), Urgent::kNoLimit);
  EXPECT_EQ(num_first, 0u);
  EXPECT_EQ(batch.size(), 8u);
}

TEST_F(UrgentTest, ARequestThatHasWaitedRunsWithoutOthers) {
  for (int i = 0; i < 100; ++i) push(0, 32);
  push(1, 32, 20 * kMillisecond, 0);
  EXPECT_EQ(turn(6 * kMillisecond), 0u);
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0]->slot, 1u);
}

TEST_F(UrgentTest, AnEarlyRequestSharesABatchWithinAFifthOfItsObjective) {
  for (int i = 0; i < 100; ++i) push(0, 32);
  push(1, 32, 100 * kMillisecond, 0);
  EXPECT_EQ(turn(4 * kMillisecond), 16 * kMillisecond);
  EXPECT_EQ(batch.front()->slot, 1u);
  EXPECT_EQ(count(0), 4u);  // 16 ms are 160 tokens
}

TEST_F(UrgentTest, OrdersByDeadline) {
  push(0, 32);
  push(1, 32, 30 * kMillisecond, 1 * kMillisecond);
  push(2, 32, 10 * kMillisecond, 2 * kMillisecond);
  push(3, 32, 20 * kMillisecond, 0);
  turn(9 * kMillisecond);
  ASSERT_EQ(batch.size(), 3u);
  EXPECT_EQ(batch[0]->slot, 2u);
  EXPECT_EQ(batch[1]->slot, 3u);
  EXPECT_EQ(batch[2]->slot, 1u);
}

// A flooding tenant gets only its share, even with an objective.
TEST_F(UrgentTest, AFloodWithAnObjectiveDoesNotGoFirst) {
  for (int i = 0; i < 100; ++i) push(0, 32);
  for (int i = 0; i < 100; ++i) push(1, 32, kMillisecond, 0);
  EXPECT_EQ(turn(50 * kMillisecond), Urgent::kNoLimit);
  EXPECT_EQ(count(0), 4u);
  EXPECT_EQ(count(1), 4u);
}

TEST_F(UrgentTest, OtherTenantsGetEverySecondBatch) {
  for (int i = 0; i < 100; ++i) push(0, 32);
  for (uint64_t now_ns = kMillisecond; now_ns < 9 * kMillisecond; now_ns += kMillisecond) {
    push(1, 32, kMillisecond, 0);
    turn(now_ns);
    if (now_ns / kMillisecond % 2 == 1) {
      EXPECT_EQ(count(0), 0u) << now_ns;
    } else {
      EXPECT_EQ(count(0), 7u) << now_ns;
    }
  }
}

TEST_F(UrgentTest, WithoutOthersBatchesDoNotAlternate) {
  for (uint64_t now_ns = kMillisecond; now_ns < 9 * kMillisecond; now_ns += kMillisecond) {
    push(1, 32, kMillisecond, 0);
    EXPECT_EQ(turn(now_ns), 0u);
    EXPECT_EQ(num_first, 1u);
  }
}

TEST_F(UrgentTest, OneRequestLargerThanTheBatchRunsAlone) {
  push(0, 32);
  push(1, 500, 10 * kMillisecond, 0);
  turn(kMillisecond);
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0]->num_tokens, 500u);
}

}  // namespace
}  // namespace itif::sched
