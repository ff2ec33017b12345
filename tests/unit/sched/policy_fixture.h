// Runs a batch policy on invented times and costs, without an executor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "sched/batch_policy.h"

namespace itif::sched {

// A fixed time per batch and a time per token.
struct LinearCost final : BatchCost {
  double fixed_ns = 0;
  double token_ns = 0;

  LinearCost(double fixed, double token) : fixed_ns(fixed), token_ns(token) {}
  double batch_ns(uint32_t num_tokens) const noexcept override {
    return fixed_ns + token_ns * num_tokens;
  }
  uint32_t tokens_within(uint64_t ns) const noexcept override {
    const double tokens = (static_cast<double>(ns) - fixed_ns) / token_ns;
    return static_cast<uint32_t>(std::clamp(tokens, 0.0, 4e9));
  }
};

class PolicyFixture : public testing::Test {
 protected:
  static constexpr uint64_t kMs = 1'000'000;

  struct Arrival {
    uint32_t slot = 0;
    uint32_t tokens = 32;
    uint64_t slo_ns = 0;
    uint64_t at_ns = 0;
    uint64_t deadline_ns = 0;
  };

  void make(std::string_view name, const PolicyOptions& options) {
    policy = make_policy(name, options).value();
  }
  request::Request& push(const Arrival& arrival) {
    request::Request& r = requests.emplace_back();
    r.slot = arrival.slot;
    r.num_tokens = arrival.tokens;
    r.settings.slo_ns = arrival.slo_ns;
    r.complete_ns = arrival.at_ns;
    r.deadline_ns = arrival.deadline_ns;
    EXPECT_TRUE(policy->push(&r, arrival.at_ns, costs()));
    return r;
  }
  BatchCosts costs() const { return {expected, *undisturbed}; }
  void choose(uint64_t now_ns) {
    policy->choose({.now_ns = now_ns, .start_ns = now_ns, .costs = costs()}, choice);
  }
  // Runs a first batch with an objective. Its bound is then the group's limit.
  void run_fast_batch() { policy->ran({.num_tokens = 1, .execute_ns = 1, .slo_ns = kMs}); }
  size_t count(uint32_t slot) const {
    return static_cast<size_t>(std::ranges::count(choice.batch, slot, &request::Request::slot));
  }
  uint32_t batch_tokens() const {
    uint32_t tokens = 0;
    for (const request::Request* r : choice.batch) tokens += r->num_tokens;
    return tokens;
  }

  LinearCost expected{0, 0.1 * kMs};
  const BatchCost* undisturbed = &kUnknownCost;
  std::deque<request::Request> requests;
  std::unique_ptr<BatchPolicy> policy;
  Choice choice;
};

}  // namespace itif::sched
