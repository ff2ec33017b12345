#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "base/random.h"

namespace itif::sched {
namespace {

class Schedulers : public testing::TestWithParam<const char*> {};

TEST_P(Schedulers, EveryRequestLeavesOnceWithinTheLimits) {
  auto scheduler = make_scheduler(GetParam()).value();
  Random random(5);
  GroupQueue queue({.max_requests = 10'000, .max_tenant_requests = 10'000, .max_slots = 8});
  std::deque<request::Request> all;
  std::set<request::Request*> left;
  std::vector<request::Request*> batch;
  const BatchLimits limits{.max_tokens = 256, .max_requests = 16};
  for (int round = 0; round < 2000; ++round) {
    for (uint64_t n = random.below(12); n > 0 && round < 1000; --n) {
      request::Request& r = all.emplace_back();
      r.slot = static_cast<uint32_t>(random.below(8));
      r.num_tokens = 1 + static_cast<uint32_t>(random.below(256));
      r.weight = 1 + r.slot;
      r.complete_ns = all.size();
      ASSERT_TRUE(queue.push(&r));
    }
    const bool was_empty = queue.num_requests() == 0;
    batch.clear();
    scheduler->select(queue, limits, 0, batch);
    EXPECT_EQ(batch.empty(), was_empty);
    EXPECT_LE(batch.size(), limits.max_requests);
    uint32_t tokens = 0;
    for (request::Request* r : batch) {
      tokens += r->num_tokens;
      EXPECT_TRUE(left.insert(r).second);
    }
    EXPECT_LE(tokens, limits.max_tokens);
  }
  while (queue.num_requests()) {
    batch.clear();
    scheduler->select(queue, limits, 0, batch);
    left.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(left.size(), all.size());
}

INSTANTIATE_TEST_SUITE_P(All, Schedulers, testing::Values("fair", "fcfs"));

// A request larger than a lowered token limit still runs, alone.
TEST_P(Schedulers, ARequestLargerThanTheLimitRunsAlone) {
  auto scheduler = make_scheduler(GetParam()).value();
  GroupQueue queue({});
  request::Request large[2];
  for (request::Request& r : large) {
    r.num_tokens = 500;
    ASSERT_TRUE(queue.push(&r));
  }
  std::vector<request::Request*> batch;
  for (request::Request& r : large) {
    batch.clear();
    scheduler->select(queue, {.max_tokens = 3, .max_requests = 8}, 0, batch);
    EXPECT_EQ(batch, std::vector<request::Request*>{&r});
  }
}

TEST(Scheduler, UnknownNameListsTheNames) {
  const auto result = make_scheduler("magic");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("fair, fcfs"), std::string::npos);
}

TEST(Fcfs, TakesRequestsInArrivalOrder) {
  auto scheduler = make_scheduler("fcfs").value();
  GroupQueue queue({});
  request::Request r[4];
  const uint32_t slots[] = {3, 1, 3, 0};
  for (int i = 0; i < 4; ++i) {
    r[i].slot = slots[i];
    r[i].num_tokens = 1;
    r[i].complete_ns = static_cast<uint64_t>(i);
    queue.push(&r[i]);
  }
  std::vector<request::Request*> batch;
  batch.clear();
  scheduler->select(queue, {}, 0, batch);
  EXPECT_EQ(batch, (std::vector<request::Request*>{&r[0], &r[1], &r[2], &r[3]}));
}

// Backlogged tenants get tokens in proportion to their weights. A flood takes nothing from the
// others.
TEST(Fair, BackloggedTenantsShareTokensByWeight) {
  auto scheduler = make_scheduler("fair").value();
  GroupQueue queue({.max_requests = 100'000, .max_tenant_requests = 100'000, .max_slots = 3});
  std::deque<request::Request> all;
  Random random(9);
  for (uint32_t slot = 0; slot < 3; ++slot) {
    for (int i = 0; i < 20'000; ++i) {
      request::Request& r = all.emplace_back();
      r.slot = slot;
      r.weight = slot + 1;
      r.num_tokens = 1 + static_cast<uint32_t>(random.below(slot == 0 ? 128 : 20));
      queue.push(&r);
    }
  }
  std::vector<request::Request*> batch;
  double tokens[3] = {};
  for (int i = 0; i < 300; ++i) {
    batch.clear();
    scheduler->select(queue, {.max_tokens = 1024, .max_requests = 256}, 0, batch);
    for (request::Request* r : batch) tokens[r->slot] += r->num_tokens;
  }
  EXPECT_NEAR(tokens[1] / tokens[0], 2, 0.1);
  EXPECT_NEAR(tokens[2] / tokens[0], 3, 0.15);
}

struct Shares {
  double tokens[2] = {};
  uint64_t longest_gap[2] = {};  // most batches in a row without the tenant
};
// Runs `batches` batches of two backlogged tenants.
Shares share(uint32_t weight0, uint32_t tokens0, uint32_t weight1, uint32_t tokens1,
             const BatchLimits& limits, int batches) {
  auto scheduler = make_scheduler("fair").value();
  GroupQueue queue({.max_requests = 200'000, .max_tenant_requests = 200'000, .max_slots = 2});
  std::deque<request::Request> all;
  for (uint32_t i = 0; i < 60'000; ++i) {
    request::Request& r = all.emplace_back();
    r.slot = i % 2;
    r.weight = r.slot ? weight1 : weight0;
    r.num_tokens = r.slot ? tokens1 : tokens0;
    queue.push(&r);
  }
  Shares shares;
  uint64_t gap[2] = {};
  std::vector<request::Request*> batch;
  for (int i = 0; i < batches; ++i) {
    batch.clear();
    scheduler->select(queue, limits, 0, batch);
    bool seen[2] = {};
    for (request::Request* r : batch) {
      shares.tokens[r->slot] += r->num_tokens;
      seen[r->slot] = true;
    }
    for (int slot = 0; slot < 2; ++slot) {
      gap[slot] = seen[slot] ? 0 : gap[slot] + 1;
      shares.longest_gap[slot] = std::max(shares.longest_gap[slot], gap[slot]);
    }
  }
  return shares;
}

// Regression: with turns of 64 tokens per unit of weight, the heavy tenant filled 62 batches in a
// row.
TEST(Fair, AHeavyTenantDoesNotStarveOthers) {
  const Shares shares = share(1000, 64, 1, 64, {.max_tokens = 1024, .max_requests = 256}, 400);
  EXPECT_LE(shares.longest_gap[1], 6u);
  EXPECT_GT(shares.tokens[0], 40 * shares.tokens[1]);
}

TEST(Fair, WeightsHoldAtTheRequestLimit) {
  const Shares shares = share(3, 1, 1, 1, {.max_tokens = 4096, .max_requests = 64}, 300);
  EXPECT_NEAR(shares.tokens[0] / shares.tokens[1], 3, 0.2);
  EXPECT_LE(shares.longest_gap[1], 2u);
}

// Regression: credit of turns that ended at max_requests grew without bound and was later spent in
// one go.
TEST(Fair, EqualWeightsMixInEveryBatch) {
  const Shares shares = share(1, 1, 1, 200, {.max_tokens = 2048, .max_requests = 64}, 200);
  EXPECT_LE(shares.longest_gap[0], 1u);
  EXPECT_LE(shares.longest_gap[1], 1u);
}

TEST(Fair, AFloodDoesNotDelayALoneRequest) {
  auto scheduler = make_scheduler("fair").value();
  GroupQueue queue({.max_requests = 4096, .max_tenant_requests = 4000, .max_slots = 2});
  std::deque<request::Request> flood(4000);
  for (request::Request& r : flood) {
    r.slot = 0;
    r.num_tokens = 64;
    queue.push(&r);
  }
  request::Request one;
  one.slot = 1;
  one.num_tokens = 128;
  queue.push(&one);
  std::vector<request::Request*> batch;
  batch.clear();
  scheduler->select(queue, {.max_tokens = 1024, .max_requests = 256}, 0, batch);
  EXPECT_NE(std::find(batch.begin(), batch.end(), &one), batch.end());
}

}  // namespace
}  // namespace itif::sched
