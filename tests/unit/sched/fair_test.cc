// fair: tenants share tokens by weight.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "base/random.h"
#include "sched/batch_policy.h"

namespace itif::sched {
namespace {

std::unique_ptr<BatchPolicy> fair_policy(const BatchLimits& limits,
                                         const GroupQueue::Limits& queue) {
  return make_policy("fair", {.limits = limits, .queue = queue}).value();
}

// Backlogged tenants get tokens in proportion to their weights. A flood takes nothing from the
// others.
TEST(Fair, BackloggedTenantsShareTokensByWeight) {
  const auto policy =
      fair_policy({.max_tokens = 1024, .max_requests = 256},
                  {.max_requests = 100'000, .max_tenant_requests = 100'000, .max_slots = 3});
  std::deque<request::Request> all;
  Random random(9);
  for (uint32_t slot = 0; slot < 3; ++slot) {
    for (int i = 0; i < 20'000; ++i) {
      request::Request& r = all.emplace_back();
      r.slot = slot;
      r.settings.weight = slot + 1;
      r.num_tokens = 1 + static_cast<uint32_t>(random.below(slot == 0 ? 128 : 20));
      policy->push(&r, 0, {});
    }
  }
  Choice choice;
  double tokens[3] = {};
  for (int i = 0; i < 300; ++i) {
    policy->choose({}, choice);
    for (request::Request* r : choice.batch) tokens[r->slot] += r->num_tokens;
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
  const auto policy = fair_policy(
      limits, {.max_requests = 200'000, .max_tenant_requests = 200'000, .max_slots = 2});
  std::deque<request::Request> all;
  for (uint32_t i = 0; i < 60'000; ++i) {
    request::Request& r = all.emplace_back();
    r.slot = static_cast<uint32_t>(i % 2);
    r.settings.weight = r.slot ? weight1 : weight0;
    r.num_tokens = r.slot ? tokens1 : tokens0;
    policy->push(&r, 0, {});
  }
  Shares shares;
  uint64_t gap[2] = {};
  Choice choice;
  for (int i = 0; i < batches; ++i) {
    policy->choose({}, choice);
    bool seen[2] = {};
    for (request::Request* r : choice.batch) {
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
  const auto policy =
      fair_policy({.max_tokens = 1024, .max_requests = 256},
                  {.max_requests = 4096, .max_tenant_requests = 4000, .max_slots = 2});
  std::deque<request::Request> flood(4000);
  for (request::Request& r : flood) {
    r.slot = 0;
    r.num_tokens = 64;
    policy->push(&r, 0, {});
  }
  request::Request one;
  one.slot = 1;
  one.num_tokens = 128;
  policy->push(&one, 0, {});
  Choice choice;
  policy->choose({}, choice);
  EXPECT_NE(std::ranges::find(choice.batch, &one), choice.batch.end());
}

}  // namespace
}  // namespace itif::sched
