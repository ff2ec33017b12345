// Tenants with a latency objective go first, and the others keep their share.
#include "policy_fixture.h"

namespace itif::sched {
namespace {

// Batches take 0.1 ms a token.
class UrgentTest : public PolicyFixture {
 protected:
  UrgentTest() {
    make("fair", {.limits = {.max_tokens = 256, .max_requests = 16},
                  .queue = {.max_requests = 1000, .max_tenant_requests = 1000, .max_slots = 8}});
    run_fast_batch();
  }
};

TEST_F(UrgentTest, WithoutObjectivesTheOrderDecidesAlone) {
  for (uint32_t i = 0; i < 10; ++i) push({.slot = i % 3, .tokens = 32});
  choose(0);
  EXPECT_EQ(choice.batch.size(), 8u);
}

TEST_F(UrgentTest, ARequestThatHasWaitedRunsWithoutOthers) {
  for (int i = 0; i < 100; ++i) push({.slot = 0, .tokens = 32});
  push({.slot = 1, .tokens = 32, .slo_ns = 20 * kMs, .at_ns = 0});
  choose(6 * kMs);
  ASSERT_EQ(choice.batch.size(), 1u);
  EXPECT_EQ(choice.batch[0]->slot, 1u);
}

TEST_F(UrgentTest, AnEarlyRequestSharesABatchWithinAFifthOfItsObjective) {
  for (int i = 0; i < 100; ++i) push({.slot = 0, .tokens = 32});
  push({.slot = 1, .tokens = 32, .slo_ns = 100 * kMs, .at_ns = 0});
  choose(4 * kMs);
  EXPECT_EQ(choice.batch.front()->slot, 1u);
  EXPECT_EQ(count(0), 4u);  // 16 ms are 160 tokens
}

TEST_F(UrgentTest, OrdersByDeadline) {
  push({.slot = 0, .tokens = 32});
  push({.slot = 1, .tokens = 32, .slo_ns = 30 * kMs, .at_ns = 1 * kMs});
  push({.slot = 2, .tokens = 32, .slo_ns = 10 * kMs, .at_ns = 2 * kMs});
  push({.slot = 3, .tokens = 32, .slo_ns = 20 * kMs, .at_ns = 0});
  choose(9 * kMs);
  ASSERT_EQ(choice.batch.size(), 3u);
  EXPECT_EQ(choice.batch[0]->slot, 2u);
  EXPECT_EQ(choice.batch[1]->slot, 3u);
  EXPECT_EQ(choice.batch[2]->slot, 1u);
}

// A flooding tenant gets only its share, even with an objective.
TEST_F(UrgentTest, AFloodWithAnObjectiveDoesNotGoFirst) {
  for (int i = 0; i < 100; ++i) push({.slot = 0, .tokens = 32});
  for (int i = 0; i < 100; ++i) push({.slot = 1, .tokens = 32, .slo_ns = kMs, .at_ns = 0});
  choose(50 * kMs);
  EXPECT_EQ(count(0), 4u);
  EXPECT_EQ(count(1), 4u);
}

TEST_F(UrgentTest, OtherTenantsGetEverySecondBatch) {
  for (int i = 0; i < 100; ++i) push({.slot = 0, .tokens = 32});
  for (uint64_t now_ns = kMs; now_ns < 9 * kMs; now_ns += kMs) {
    push({.slot = 1, .tokens = 32, .slo_ns = kMs, .at_ns = 0});
    choose(now_ns);
    if (now_ns / kMs % 2 == 1) {
      EXPECT_EQ(count(0), 0u) << now_ns;
    } else {
      EXPECT_EQ(count(0), 7u) << now_ns;
    }
  }
}

TEST_F(UrgentTest, WithoutOthersBatchesDoNotAlternate) {
  for (uint64_t now_ns = kMs; now_ns < 9 * kMs; now_ns += kMs) {
    push({.slot = 1, .tokens = 32, .slo_ns = kMs, .at_ns = 0});
    choose(now_ns);
    EXPECT_EQ(choice.batch.size(), 1u);
  }
}

TEST_F(UrgentTest, OneRequestLargerThanTheBatchRunsAlone) {
  push({.slot = 0, .tokens = 32});
  push({.slot = 1, .tokens = 500, .slo_ns = 10 * kMs, .at_ns = 0});
  choose(kMs);
  ASSERT_EQ(choice.batch.size(), 1u);
  EXPECT_EQ(choice.batch[0]->num_tokens, 500u);
}

}  // namespace
}  // namespace itif::sched
