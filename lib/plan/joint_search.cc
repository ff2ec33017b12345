#include "plan/joint_search.h"

#include <algorithm>
#include <limits>

namespace itif::plan {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();
// Sums of equal costs in another order differ by rounding. Plans that differ less are equal.
constexpr double kLess = 1 - 1e-12;

}  // namespace

JointSearch::JointSearch(const CostModel& costs, const PlanLimits& limits)
    : costs_(costs),
      limits_(limits),
      states_(kMaxStates),
      shares_(size_t{limits.max_requests} + 1) {
  tenants_.reserve(limits.max_requests);
}

double JointSearch::improve(const RequestOrder& order, double bound_ns, uint64_t max_steps,
                            std::vector<PaddedBatch>& batches,
                            std::vector<uint32_t>& ends) noexcept {
  steps_ = 0;
  max_steps_ = max_steps;
  bound_ns_ = bound_ns;
  is_complete_ = false;
  if (!make_states(order)) return bound_ns;
  find_shares(order);
  if (steps_ > max_steps_) return bound_ns;
  // Every call leaves fewer requests, so a state's number is below those that lead to it.
  for (uint32_t state = num_states_ - 1; state > 0; --state) {
    if (states_[state].cost_ns == kUnreached) continue;
    uint32_t rest = state;
    for (Tenant& tenant : tenants_) {
      tenant.remaining = rest % (tenant.num_requests + 1);
      rest /= tenant.num_requests + 1;
    }
    if (states_[state].cost_ns + min_rest_ns() >= bound_ns_ * kLess) continue;
    expand(order, state);
    if (steps_ > max_steps_) return bound_ns;
  }
  is_complete_ = true;
  if (states_[0].cost_ns >= bound_ns * kLess) return bound_ns;
  trace(order, batches, ends);
  return states_[0].cost_ns;
}

bool JointSearch::make_states(const RequestOrder& order) noexcept {
  tenants_.clear();
  num_states_ = 1;
  const uint64_t most = std::min<uint64_t>(kMaxStates, max_steps_);
  for (uint32_t first = 0; first < order.size();) {
    const uint32_t end = order.tenant_end(first);
    tenants_.push_back({.first = first, .num_requests = end - first, .stride = num_states_});
    if (uint64_t{num_states_} * (end - first + 1) > most) return false;
    num_states_ *= end - first + 1;
    first = end;
  }
  std::fill_n(states_.begin(), num_states_, State{.cost_ns = kUnreached});
  states_[num_states_ - 1].cost_ns = 0;
  return true;
}

// A request's share of a call is the call's cost divided by its number of requests. Finds the least
// share over all calls that are as long as the request.
void JointSearch::find_shares(const RequestOrder& order) noexcept {
  uint32_t largest = 0;
  for (const Tenant& tenant : tenants_) largest = std::max(largest, tenant.num_requests);
  shares_[0] = 0;
  for (uint32_t rank = 0; rank < order.size(); ++rank) {
    const uint32_t length = order.length(rank);
    const CostRow gemm = costs_.gemm(length);
    double least = gemm[1];
    for (uint32_t size = 1; size <= largest && (size == 1 || size * length <= limits_.max_rows);
         ++size) {
      least = std::min(least, gemm[size] / size);
      if (!costs_.has_batched_gemm()) continue;
      const CostRow batched = costs_.batched_gemm(length, size);
      const uint32_t most = std::min(order.size(), limits_.max_rows / length) / size;
      for (uint32_t count = 2; count <= most; ++count)
        least = std::min(least, batched[count] / (size * count));
      steps_ += most;
    }
    shares_[rank + 1] = shares_[rank] + least;
  }
}

double JointSearch::min_rest_ns() const noexcept {
  double rest_ns = 0;
  for (const Tenant& tenant : tenants_)
    rest_ns += shares_[tenant.first + tenant.remaining] - shares_[tenant.first];
  return rest_ns;
}

// Tries every call that holds the longest remaining request.
void JointSearch::expand(const RequestOrder& order, uint32_t state) noexcept {
  uint32_t length = 0;
  for (size_t t = 0; t < tenants_.size(); ++t) {
    const Tenant& tenant = tenants_[t];
    if (tenant.remaining == 0) continue;
    const uint32_t longest = order.length(tenant.first + tenant.remaining - 1);
    if (longest <= length) continue;
    length = longest;
    longest_tenant_ = t;
  }
  state_ = state;
  const CostRow gemm = costs_.gemm(length);
  for (size_ = 1; size_ <= tenants_[longest_tenant_].remaining; ++size_) {
    if (size_ > 1 && size_ * length > limits_.max_rows) return;
    gemm_ns_ = gemm[size_];
    max_count_ = 1;
    if (costs_.has_batched_gemm()) {
      batched_ = costs_.batched_gemm(length, size_);
      max_count_ = std::max(1u, limits_.max_rows / (size_ * length));
    }
    add_tenant(0, 0, state);
    if (steps_ > max_steps_) return;
  }
}

void JointSearch::add_tenant(size_t tenant, uint32_t count, uint32_t next) noexcept {
  if (tenant == tenants_.size()) {
    if (count > 0) reach(next, count);
    return;
  }
  const Tenant& t = tenants_[tenant];
  const uint32_t least = tenant == longest_tenant_ ? 1 : 0;
  // Leaves room for the mini-batch of the longest request.
  const uint32_t kept = tenant < longest_tenant_ ? 1 : 0;
  const uint32_t room = max_count_ - count;
  const uint32_t most = std::min(t.remaining / size_, room - std::min(room, kept));
  for (uint32_t taken = least; taken <= most && steps_ <= max_steps_; ++taken)
    add_tenant(tenant + 1, count + taken, next - taken * size_ * t.stride);
}

void JointSearch::reach(uint32_t next, uint32_t count) noexcept {
  ++steps_;
  const double cost_ns = states_[state_].cost_ns + (count == 1 ? gemm_ns_ : batched_[count]);
  State& reached = states_[next];
  if (cost_ns >= reached.cost_ns) return;
  reached = {cost_ns, state_, size_};
  if (next == 0) bound_ns_ = std::min(bound_ns_, cost_ns);
}

void JointSearch::trace(const RequestOrder& order, std::vector<PaddedBatch>& batches,
                        std::vector<uint32_t>& ends) const noexcept {
  batches.clear();
  ends.clear();
  for (uint32_t state = 0; state != num_states_ - 1;) {
    const State& reached = states_[state];
    for (const Tenant& tenant : tenants_) {
      const uint32_t radix = tenant.num_requests + 1;
      const uint32_t after = state / tenant.stride % radix,
                     before = reached.from / tenant.stride % radix;
      for (uint32_t at = after; at < before; at += reached.size)
        batches.push_back(
            {tenant.first + at, reached.size, order.length(tenant.first + at + reached.size - 1)});
    }
    ends.push_back(static_cast<uint32_t>(batches.size()));
    state = reached.from;
  }
}

}  // namespace itif::plan
