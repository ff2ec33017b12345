// A policy in one file that keeps an order of its own over the waiting requests.
#include <set>

#include "policy_fixture.h"

namespace itif::sched {
namespace {

struct Shorter {
  bool operator()(const request::Request* a, const request::Request* b) const noexcept {
    return std::pair(a->num_tokens, a) < std::pair(b->num_tokens, b);
  }
};

// The shortest requests of all tenants first; those that would miss their deadlines are refused.
class ShortestFirst final : public BatchPolicy {
 public:
  explicit ShortestFirst(const PolicyOptions& options)
      : BatchPolicy(options.queue), limits_(options.limits) {}

  request::Request* pop() noexcept override {
    return order_.empty() ? nullptr : take(*order_.begin());
  }
  void choose(const ExecutorState& state, Choice& choice) noexcept override {
    choice.clear();
    uint64_t tokens = 0;
    while (!order_.empty() && choice.batch.size() + choice.refused.size() < limits_.max_requests) {
      request::Request* shortest = *order_.begin();
      if (const auto miss = deadline_miss(*shortest, state)) {
        choice.refused.push_back({take(shortest), *miss});
        continue;
      }
      tokens += shortest->num_tokens;
      if (tokens > limits_.max_tokens && !choice.batch.empty()) break;
      choice.batch.push_back(take(shortest));
    }
    refuse_behind(state, choice);
  }

 protected:
  void entered(request::Request& request, uint64_t, const BatchCosts&) noexcept override {
    order_.insert(&request);
  }
  void remove(request::Request* request) noexcept override { take(request); }

 private:
  request::Request* take(request::Request* request) noexcept {
    order_.erase(request);
    queue_.remove(request);
    return request;
  }

  const BatchLimits limits_;
  std::set<request::Request*, Shorter> order_;
};

class OwnOrderTest : public PolicyFixture {
 protected:
  OwnOrderTest() {
    policy = std::make_unique<ShortestFirst>(
        PolicyOptions{.limits = {.max_tokens = 10, .max_requests = 4},
                      .queue = {.max_requests = 8, .max_tenant_requests = 4, .max_slots = 2}});
  }
};

TEST_F(OwnOrderTest, ChoosesAcrossTenantsAndWithinThem) {
  request::Request& nine = push({.slot = 0, .tokens = 9});
  request::Request& one = push({.slot = 0, .tokens = 1});
  request::Request& three = push({.slot = 1, .tokens = 3});
  request::Request& passed = push({.slot = 1, .tokens = 2, .deadline_ns = 5});
  request::Request& five = push({.slot = 0, .tokens = 5});
  choose(5);
  EXPECT_EQ(choice.batch, (std::vector<request::Request*>{&one, &three, &five}));
  ASSERT_EQ(choice.refused.size(), 1u);
  EXPECT_EQ(choice.refused[0].request, &passed);
  EXPECT_EQ(policy->queue().num_tokens(), 9u);
  EXPECT_EQ(policy->queue().of_tenant(0).num_requests, 1u);
  EXPECT_EQ(policy->pop(), &nine);
  EXPECT_EQ(policy->pop(), nullptr);
  choose(6);
  EXPECT_TRUE(choice.batch.empty());
}

TEST_F(OwnOrderTest, AnInfeasibleRequestLeavesTheOrder) {
  push({.slot = 0, .tokens = 9});
  request::Request& late = push({.slot = 0, .tokens = 10, .deadline_ns = kMs});
  request::Request& stays = push({.slot = 1, .tokens = 11});
  choose(6);
  EXPECT_EQ(choice.batch.size(), 1u);
  ASSERT_EQ(choice.refused.size(), 1u);
  EXPECT_EQ(choice.refused[0].request, &late);
  EXPECT_EQ(policy->pop(), &stays);
  EXPECT_EQ(policy->pop(), nullptr);
}

TEST_F(OwnOrderTest, TheQueuesSharesHold) {
  for (int i = 0; i < 4; ++i) push({.slot = 0, .tokens = 4});
  EXPECT_FALSE(policy->queue().has_room(0));
  EXPECT_TRUE(policy->queue().has_room(1));
}

}  // namespace
}  // namespace itif::sched
