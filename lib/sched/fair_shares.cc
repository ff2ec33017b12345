#include "sched/fair_shares.h"

#include <algorithm>
#include <utility>

namespace itif::sched {

void FairShares::begin(const GroupQueue& queue, const BatchLimits& limits) noexcept {
  window_tokens_ = kWindowBatches * limits.max_tokens;
  const auto weights = static_cast<double>(queue.active_weights());
  tenants_.clear();
  for (const uint32_t slot : queue.active_slots()) {
    const double share = queue.of_tenant(slot).settings.weight / weights;
    tenants_.push_back({slot, share, balances_[slot] - share * window_tokens_});
  }
  std::ranges::sort(tenants_, [](const Tenant& a, const Tenant& b) {
    return std::pair(-a.owed_tokens, a.slot) < std::pair(-b.owed_tokens, b.slot);
  });
}

void FairShares::end() noexcept {
  const double num_tokens = std::exchange(charged_tokens_, 0);
  for (const Tenant& tenant : tenants_) {
    // A balance is bounded, so that a tenant that could not be served, or was served in excess,
    // does not decide the batches of a later load.
    const double most = 2 * tenant.share * window_tokens_;
    double& balance = balances_[tenant.slot];
    balance = std::clamp(balance + tenant.share * num_tokens, -most, most);
  }
}

}  // namespace itif::sched
