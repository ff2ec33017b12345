// The order of the policies, and what all of them promise.
#include "sched/batch_policy.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sched/policy_names.h"

namespace itif::sched {
namespace {

std::unique_ptr<BatchPolicy> policy_of(std::string_view name, const BatchLimits& limits,
                                       const GroupQueue::Limits& queue) {
  return make_policy(name, {.limits = limits, .queue = queue}).value();
}

class EveryPolicy : public testing::TestWithParam<std::tuple<std::string_view, bool>> {
 protected:
  std::unique_ptr<BatchPolicy> make(const BatchLimits& limits, const GroupQueue::Limits& queue) {
    const auto [name, continuous] = GetParam();
    return make_policy(name, {.limits = limits, .queue = queue, .continuous = continuous}).value();
  }
};

TEST_P(EveryPolicy, EveryRequestLeavesOnceWithinTheLimits) {
  const BatchLimits limits{.max_tokens = 256, .max_requests = 16};
  const auto policy =
      make(limits, {.max_requests = 10'000, .max_tenant_requests = 10'000, .max_slots = 8});
  Random random(5);
  std::deque<request::Request> all;
  std::set<request::Request*> left;
  Choice choice;
  for (int round = 0; round < 2000; ++round) {
    for (uint64_t n = random.below(12); n > 0 && round < 1000; --n) {
      request::Request& r = all.emplace_back();
      r.slot = static_cast<uint32_t>(random.below(8));
      r.num_tokens = 1 + static_cast<uint32_t>(random.below(256));
      r.settings.weight = 1 + r.slot;
      r.complete_ns = all.size();
      ASSERT_TRUE(policy->push(&r, 0, {}));
    }
    const bool was_empty = policy->queue().num_requests() == 0;
    policy->choose({}, choice);
    EXPECT_EQ(choice.batch.empty(), was_empty);
    EXPECT_LE(choice.batch.size(), limits.max_requests);
    EXPECT_TRUE(choice.refused.empty());
    uint32_t tokens = 0;
    for (request::Request* r : choice.batch) {
      tokens += r->num_tokens;
      EXPECT_TRUE(left.insert(r).second);
    }
    EXPECT_LE(tokens, limits.max_tokens);
  }
  for (int i = 0; i < 100 && policy->queue().num_requests() > 0; ++i) {
    policy->choose({}, choice);
    left.insert(choice.batch.begin(), choice.batch.end());
  }
  while (request::Request* r = policy->pop()) EXPECT_TRUE(left.insert(r).second);
  EXPECT_EQ(left.size(), all.size());
  EXPECT_EQ(policy->queue().num_requests(), 0u);
}

// Rows that hold what they may, deadlines, objectives, requests longer than a row, and requests
// that leave by pop(): each leaves exactly once, in time or refused.
TEST_P(EveryPolicy, BatchesAreFeasible) {
  Random random(8);
  size_t num_with_slots = 0;
  for (int instance = 0; instance < 60; ++instance) {
    const BatchRows rows{1 + static_cast<uint32_t>(random.below(4)),
                         20 + static_cast<uint32_t>(random.below(80))};
    const BatchLimits limits{.max_tokens = rows.number * rows.tokens,
                             .max_requests = 4 + static_cast<uint32_t>(random.below(30))};
    const GroupQueue::Limits queue{
        .max_requests = 4000, .max_tenant_requests = 2000, .max_slots = 4};
    const auto policy = make(limits, queue);
    std::deque<request::Request> all;
    std::set<request::Request*> left;
    Choice choice;
    choice.reserve({.limits = limits, .queue = queue});
    const size_t capacities[] = {choice.batch.capacity(), choice.refused.capacity()};
    for (uint64_t now_ns = 1; now_ns < 60 || policy->queue().num_requests() > 0; ++now_ns) {
      for (uint64_t n = random.below(30); n > 0 && now_ns < 40; --n) {
        request::Request& r = all.emplace_back();
        r.slot = static_cast<uint32_t>(random.below(4));
        r.num_tokens = 1 + static_cast<uint32_t>(random.below(random.below(9) ? 20 : 120));
        r.deadline_ns = random.below(3) ? now_ns + random.below(12) : 0;
        r.settings.weight = 1 + r.slot;
        r.settings.slo_ns = r.slot == 3 ? 50 : 0;
        r.complete_ns = now_ns;
        ASSERT_TRUE(policy->push(&r, now_ns, {}));
      }
      if (request::Request* r = random.below(8) == 0 ? policy->pop() : nullptr) {
        ASSERT_TRUE(left.insert(r).second);
      }
      const bool was_empty = policy->num_waiting() == 0;
      policy->choose({.now_ns = now_ns, .start_ns = now_ns, .rows = rows}, choice);
      ASSERT_EQ(choice.batch.empty() && choice.refused.empty(), was_empty);
      ASSERT_LE(choice.batch.size(), limits.max_requests);
      const std::string_view name = std::get<0>(GetParam());
      ASSERT_EQ(choice.has_rows, name.ends_with("das"));
      ASSERT_TRUE(choice.slot_tokens == 0 || name == "slotted_das");
      num_with_slots += choice.slot_tokens > 0;
      const BatchRows filled =
          choice.has_rows ? rows : BatchRows{.number = 1, .tokens = limits.max_tokens};
      std::vector<uint64_t> tokens(filled.number);
      const uint32_t slots_of_row = std::max(1u, rows.tokens / std::max(1u, choice.slot_tokens));
      std::map<uint32_t, uint64_t> slot_tokens;
      uint32_t row = 0;
      for (request::Request* r : choice.batch) {
        ASSERT_TRUE(left.insert(r).second);
        ASSERT_TRUE(r->deadline_ns == 0 || r->deadline_ns > now_ns);
        ASSERT_GE(r->row, row) << "row after row";
        ASSERT_LT(r->row, filled.number);
        row = r->row;
        tokens[row] += r->num_tokens;
        if (choice.slot_tokens == 0) continue;
        ASSERT_EQ(r->row_slot / slots_of_row, row);
        ASSERT_LE(slot_tokens[r->row_slot] += r->num_tokens, choice.slot_tokens);
      }
      const bool alone = choice.batch.size() == 1;
      for (const uint64_t in_row : tokens) ASSERT_TRUE(in_row <= filled.tokens || alone);
      for (const Refused& refused : choice.refused) {
        ASSERT_TRUE(left.insert(refused.request).second);
        ASSERT_TRUE(refused.request->deadline_ns != 0 && refused.request->deadline_ns <= now_ns);
      }
      ASSERT_EQ(choice.batch.capacity(), capacities[0]);
      ASSERT_EQ(choice.refused.capacity(), capacities[1]);
      ASSERT_LT(now_ns, 4000u);
    }
    while (request::Request* r = policy->pop()) ASSERT_TRUE(left.insert(r).second);
    ASSERT_EQ(left.size(), all.size());
  }
  EXPECT_EQ(num_with_slots > 1000, std::get<0>(GetParam()) == "slotted_das");
}

// One choice refuses all waiting requests that its batch makes late, however many they are. A
// batch takes 1 ms per token; a request joins a running one at once.
TEST_P(EveryPolicy, AChoiceRefusesAllThatItsBatchMakesLate) {
  struct Cost final : BatchCost {
    double batch_ns(uint32_t num_tokens) const noexcept override { return 1e6 * num_tokens; }
    uint32_t tokens_within(uint64_t ns) const noexcept override {
      return static_cast<uint32_t>(ns / 1'000'000);
    }
  } cost;
  const PolicyOptions options{
      .limits = {.max_tokens = 20, .max_requests = 2},
      .queue = {.max_requests = 100, .max_tenant_requests = 100, .max_slots = 2}};
  const auto policy = make(options.limits, options.queue);
  std::vector<request::Request> all(40);
  for (request::Request& r : all) {
    const auto i = static_cast<uint64_t>(&r - all.data());
    r.slot = static_cast<uint32_t>(i % 2);
    r.num_tokens = 10;
    r.complete_ns = i;
    // The batch ends at 21 ms. One token longer, and the request could not follow it.
    r.deadline_ns = i % 4 == 3 ? 31'000'000 : 30'999'999;
    ASSERT_TRUE(policy->push(&r, i, {cost}));
  }
  Choice choice;
  choice.reserve(options);
  policy->choose({.now_ns = 1'000'000, .costs = {cost}}, choice);
  ASSERT_EQ(choice.batch.size(), 2u);
  if (std::get<1>(GetParam())) {
    EXPECT_TRUE(choice.refused.empty());
    return;
  }
  const auto in_time = static_cast<size_t>(
      std::ranges::count(choice.batch, 31'000'000u, &request::Request::deadline_ns));
  EXPECT_EQ(choice.refused.size(), 30 - (2 - in_time));
  for (const Refused& refused : choice.refused) {
    EXPECT_EQ(refused.request->deadline_ns, 30'999'999u);
    EXPECT_EQ(refused.why, DeadlineMiss::kTooSoon);
  }
  EXPECT_EQ(policy->num_waiting(), 10 - in_time);
}

// Requests move from each policy to each other one, also those that a running batch had no place
// for, and beyond the queue's limit.
TEST_P(EveryPolicy, TakesOverTheRequestsOfEveryOther) {
  struct NoPlace final : Capacity {
    bool reserve(const request::Request&) noexcept override { return false; }
  };
  const BatchLimits limits{.max_tokens = 100, .max_requests = 8};
  const GroupQueue::Limits queue{.max_requests = 40, .max_tenant_requests = 20, .max_slots = 4};
  for (const std::string_view name : kPolicyNames) {
    const bool continuous = std::get<1>(GetParam());
    auto old =
        make_policy(name, {.limits = limits, .queue = queue, .continuous = continuous}).value();
    std::deque<request::Request> all;
    const auto push_all = [&] {
      for (uint32_t i = 0; i < 40; ++i) {
        request::Request& r = all.emplace_back();
        r.slot = i % 4;
        r.num_tokens = 1 + i;
        r.complete_ns = all.size();
        if (!old->push(&r, 0, {})) all.pop_back();
      }
    };
    push_all();
    Choice choice;
    NoPlace no_place;
    if (continuous) old->choose({.capacity = &no_place}, choice);
    push_all();
    const auto fresh = make(limits, queue);
    fresh->take_over(*old, 0, {});
    EXPECT_EQ(old->num_waiting(), 0u);
    EXPECT_EQ(fresh->num_waiting(), all.size());
    std::set<request::Request*> left;
    while (fresh->num_waiting() > 0) {
      fresh->choose({}, choice);
      ASSERT_FALSE(choice.batch.empty());
      left.insert(choice.batch.begin(), choice.batch.end());
    }
    EXPECT_EQ(left.size(), all.size()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy,
                         testing::Combine(testing::ValuesIn(kPolicyNames), testing::Bool()));

// A request larger than a lowered token limit still runs, alone.
TEST_P(EveryPolicy, ARequestLargerThanTheLimitRunsAlone) {
  const auto policy = make({.max_tokens = 3, .max_requests = 8}, {});
  request::Request large[2];
  for (request::Request& r : large) {
    r.num_tokens = 500;
    ASSERT_TRUE(policy->push(&r, 0, {}));
  }
  Choice choice;
  for (request::Request& r : large) {
    policy->choose({}, choice);
    EXPECT_EQ(choice.batch, std::vector<request::Request*>{&r});
  }
}

TEST(BatchPolicy, UnknownNameListsTheNames) {
  const auto result = make_policy("magic", {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("fair, fcfs"), std::string::npos);
}

// Three requests of one tenant and one of another wait. The order serves all of them before a
// request that arrives now, or as many of each tenant.
TEST(BatchPolicy, BacklogAheadFollowsTheOrder) {
  for (const bool continuous : {false, true}) {
    for (const std::string_view name : {"fcfs", "fair"}) {
      const auto policy = make_policy(name, {.continuous = continuous}).value();
      request::Request r[4];
      for (request::Request& one : r) {
        one.slot = &one == &r[3];
        one.num_tokens = 10;
        ASSERT_TRUE(policy->push(&one, 0, {}));
      }
      EXPECT_EQ(policy->backlog_ahead(0).num_requests, 4);
      EXPECT_EQ(policy->backlog_ahead(1).num_tokens, name == "fcfs" ? 40 : 20) << name;
      EXPECT_EQ(policy->backlog_ahead(2).num_tokens, name == "fcfs" ? 40 : 0) << name;
    }
  }
}

// Tenant 0, of weight 3, waits with 40 tokens. Tenants 1 and 2, of weight 1, wait with 40 and 90.
// `fair` serves 40 tokens of tenant 0 while it serves 13 of each other one, and 40 of tenant 1
// while it serves 120 of tenant 0, which are more than wait.
TEST(BatchPolicy, BacklogAheadCountsWeights) {
  const auto policy = make_policy("fair", {}).value();
  request::Request r[17];
  for (uint32_t i = 0; i < 17; ++i) {
    r[i].slot = i < 4 ? 0 : i < 8 ? 1 : 2;
    r[i].settings.weight = i < 4 ? 3 : 1;
    r[i].num_tokens = 10;
    ASSERT_TRUE(policy->push(&r[i], 0, {}));
  }
  EXPECT_NEAR(policy->backlog_ahead(0).num_tokens, 40 + 2 * 40 / 3.0, 0.01);
  EXPECT_EQ(policy->backlog_ahead(1).num_tokens, 170);
  EXPECT_NEAR(policy->backlog_ahead(0).num_requests, 4 + 2 * 4 / 3.0, 0.01);
}

TEST(Fcfs, TakesRequestsInArrivalOrder) {
  const auto policy = policy_of("fcfs", {}, {});
  request::Request r[4];
  const uint32_t slots[] = {3, 1, 3, 0};
  for (int i = 0; i < 4; ++i) {
    r[i].slot = slots[i];
    r[i].num_tokens = 1;
    r[i].complete_ns = static_cast<uint64_t>(i);
    policy->push(&r[i], 0, {});
  }
  Choice choice;
  policy->choose({}, choice);
  EXPECT_EQ(choice.batch, (std::vector<request::Request*>{&r[0], &r[1], &r[2], &r[3]}));
}

// Requests of these lengths and deadlines, of different tenants, in the order of their arrival.
std::vector<uint32_t> order_of(std::string_view name,
                               const std::vector<std::pair<uint32_t, uint64_t>>& waiting,
                               const BatchLimits& limits, const BatchRows& rows = {}) {
  const auto policy = policy_of(name, limits, {});
  std::deque<request::Request> all;
  for (const auto& [num_tokens, deadline_ns] : waiting) {
    request::Request& r = all.emplace_back();
    r.slot = static_cast<uint32_t>(all.size() % 3);
    r.complete_ns = all.size();
    r.num_tokens = num_tokens;
    r.deadline_ns = deadline_ns;
    EXPECT_TRUE(policy->push(&r, 0, {}));
  }
  Choice choice;
  std::vector<uint32_t> order;  // row · 100 + length
  policy->choose({.rows = rows}, choice);
  for (const request::Request* r : choice.batch) order.push_back(100 * r->row + r->num_tokens);
  return order;
}

TEST(Sjf, TakesTheShortest) {
  const std::vector<std::pair<uint32_t, uint64_t>> waiting = {
      {9, 1}, {2, 0}, {5, 0}, {3, 0}, {4, 0}};
  EXPECT_EQ(order_of("sjf", waiting, {}), (std::vector<uint32_t>{2, 3, 4, 5, 9}));
  EXPECT_EQ(order_of("sjf", waiting, {.max_tokens = 10}), (std::vector<uint32_t>{2, 3, 4}));
  EXPECT_EQ(order_of("sjf", waiting, {.max_requests = 2}), (std::vector<uint32_t>{2, 3}));
}

TEST(Edf, TakesTheEarliestDeadlineThatFits) {
  const std::vector<std::pair<uint32_t, uint64_t>> waiting = {
      {2, 0}, {6, 30}, {3, 40}, {5, 10}, {4, 20}};
  EXPECT_EQ(order_of("edf", waiting, {}), (std::vector<uint32_t>{5, 4, 6, 3, 2}));
  EXPECT_EQ(order_of("edf", waiting, {.max_tokens = 11}), (std::vector<uint32_t>{5, 4, 2}));
  // The earliest is longer than a batch: it comes first, and alone.
  EXPECT_EQ(order_of("edf", {{2, 20}, {30, 10}, {3, 0}}, {.max_tokens = 20}),
            (std::vector<uint32_t>{30}));
}

// With other policies the planner fills the rows, and leaves less of them empty than the policy's
// order would.
TEST(Rows, OnlyDasFillsThem) {
  const std::vector<std::pair<uint32_t, uint64_t>> waiting = {{6, 1}, {6, 2}, {6, 3}, {2, 4}};
  for (const std::string_view name : {"fair", "fcfs", "lcfs", "sjf", "edf"}) {
    std::vector<uint32_t> batch = order_of(name, waiting, {.max_tokens = 20}, {2, 10});
    std::ranges::sort(batch);
    EXPECT_EQ(batch, (std::vector<uint32_t>{2, 6, 6, 6})) << name;
  }
  EXPECT_EQ(order_of("das", waiting, {.max_tokens = 20}, {2, 10}),
            (std::vector<uint32_t>{2, 6, 106}));
}

}  // namespace
}  // namespace itif::sched
