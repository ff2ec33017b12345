// das:fair on simulated loads: tenants' shares, and the utility that they cost.
#include <fmt/format.h>

#include <array>

#include "base/random.h"
#include "policy_fixture.h"
#include "sched/fair_shares.h"

namespace itif::sched {
namespace {

class DasFairTest : public PolicyFixture {
 protected:
  static constexpr uint32_t kMaxTokens = 512;
  static constexpr uint32_t kMaxTenants = 4;
  static constexpr uint64_t kBatchNs = kMs;

  struct Tenant {
    double tokens_per_batch = 0;  // offered
    uint32_t shortest = 1, longest = 1;
    uint32_t weight = 1;
  };
  struct Outcome {
    double utility = 0;
    std::array<uint64_t, kMaxTenants> tokens = {};
    // The largest deficit of a tenant, in tokens: its share less its tokens, counted from the last
    // time that it had no waiting requests.
    std::array<double, kMaxTenants> most_behind = {};
  };

  // Runs batches of equal time. Requests wait at most 5 to 20 batches.
  Outcome run(std::string_view name, const std::vector<Tenant>& tenants, int num_batches) {
    const PolicyOptions options{
        .limits = {.max_tokens = kMaxTokens, .max_requests = 256},
        .queue = {.max_requests = 20'000, .max_tenant_requests = 20'000, .max_slots = 4}};
    make(name, options);
    choice.reserve(options);
    Random random(3);
    Outcome out;
    std::array<double, kMaxTenants> behind = {}, due = {};
    for (int i = 0; i < num_batches; ++i) {
      const uint64_t now_ns = kBatchNs * static_cast<uint64_t>(i + 1);
      double weights = 0;
      for (uint32_t slot = 0; slot < tenants.size(); ++slot) {
        const Tenant& tenant = tenants[slot];
        due[slot] += tenant.tokens_per_batch * random.exponential();
        while (due[slot] > 0) {
          request::Request& r = requests.emplace_back();
          r.slot = slot;
          r.settings.weight = tenant.weight;
          r.num_tokens = tenant.shortest +
                         static_cast<uint32_t>(random.below(tenant.longest - tenant.shortest + 1));
          r.deadline_ns = now_ns + kBatchNs * (5 + random.below(16));
          due[slot] -= r.num_tokens;
          EXPECT_TRUE(policy->push(&r, now_ns, costs()));
        }
        if (policy->queue().of_tenant(slot).active)
          weights += tenant.weight;
        else
          behind[slot] = 0;
      }
      std::array<bool, kMaxTenants> waits = {};
      for (const uint32_t slot : policy->queue().active_slots()) waits[slot] = true;
      policy->choose({.now_ns = now_ns}, choice);
      for (const request::Request* r : choice.batch) {
        out.utility += 1.0 / r->num_tokens;
        out.tokens[r->slot] += r->num_tokens;
        behind[r->slot] -= r->num_tokens;
      }
      for (uint32_t slot = 0; slot < tenants.size(); ++slot) {
        if (waits[slot]) behind[slot] += batch_tokens() * tenants[slot].weight / weights;
        out.most_behind[slot] = std::max(out.most_behind[slot], behind[slot]);
      }
    }
    return out;
  }
};

// Tenants of equal lengths, offered in proportion to their weights: DAS already serves them about
// by share. At 0.8, 1.2, 2 and 4 times the capacity.
TEST_F(DasFairTest, KeepsTheUtilityOfDasOnBalancedLoads) {
  for (const double load : {0.8, 1.2, 2.0, 4.0}) {
    for (const bool weighted : {false, true}) {
      std::vector<Tenant> tenants;
      for (uint32_t slot = 0; slot < 4; ++slot) {
        const uint32_t weight = weighted ? slot + 1 : 1;
        tenants.push_back({.tokens_per_batch = load * kMaxTokens * weight / (weighted ? 10 : 4),
                           .shortest = 3,
                           .longest = 100,
                           .weight = weight});
      }
      const double plain = run("das", tenants, 2000).utility;
      const double fair = run("das:fair", tenants, 2000).utility;
      fmt::print("load {}{}: fair keeps {:.4f} of the utility\n", load, weighted ? ", weights" : "",
                 fair / plain);
      EXPECT_GE(fair, 0.95 * plain) << load;
    }
  }
}

// One tenant sends twice what the group can do in short requests, the other in long ones.
TEST_F(DasFairTest, NoTenantStaysBehindItsShare) {
  for (const uint32_t weight : {1u, 3u}) {
    const std::vector<Tenant> tenants = {
        {.tokens_per_batch = 2 * kMaxTokens, .shortest = 3, .longest = 20},
        {.tokens_per_batch = 2 * kMaxTokens, .shortest = 60, .longest = 100, .weight = weight}};
    constexpr int kBatches = 1000;
    const double share = weight / (weight + 1.0);
    const Outcome plain = run("das", tenants, kBatches);
    EXPECT_LT(plain.tokens[1], 0.1 * static_cast<double>(plain.tokens[0]));
    for (const std::string_view name : {"das:fair", "slotted_das:fair"}) {
      const Outcome fair = run(name, tenants, kBatches);
      // The window, one more batch, and a request that did not fit that batch.
      const double slack = share * (FairShares::kWindowBatches + 1) * kMaxTokens + 100;
      EXPECT_LE(fair.most_behind[1], slack) << name;
      const auto all = static_cast<double>(fair.tokens[0] + fair.tokens[1]);
      EXPECT_NEAR(static_cast<double>(fair.tokens[1]) / all, share, 0.02) << name;
    }
  }
}

}  // namespace
}  // namespace itif::sched
