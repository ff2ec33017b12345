// Finds the tenants that are behind their weighted share of the tokens, for policies that choose by
// another measure than shares (das_rows.h). Not in TCB's paper.
//
// Each batch, a tenant with waiting requests is due its weighted share of the batch's tokens. Its
// balance is the tokens that it was due less those that it got. Once the balance exceeds the
// tenant's share of kWindowBatches full batches, its requests go before all others until the
// balance is back at that share. This bounds the deficit of a tenant with waiting requests,
// whatever the others send. Choices that are fair within the window do not change. A tenant that
// had no waiting request starts without credit or debt.
//
// Owned by the executor's thread. Allocates nothing after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/batch_limits.h"
#include "sched/group_queue.h"

namespace itif::sched {

class FairShares {
 public:
  static constexpr double kWindowBatches = 8;

  struct Tenant {
    uint32_t slot = 0;
    double share = 0;        // of the weights of all tenants with waiting requests
    double owed_tokens = 0;  // beyond the window; 0 or less: none
  };

  explicit FairShares(uint32_t max_slots) : balances_(max_slots) { tenants_.reserve(max_slots); }

  // Forgets the balance of a tenant.
  void reset(uint32_t slot) noexcept { balances_[slot] = 0; }
  // Begins a batch, whose limits are `limits`.
  void begin(const GroupQueue& queue, const BatchLimits& limits) noexcept;
  // The tenants with waiting requests when the batch began; those that are owed most come first.
  std::vector<Tenant>& tenants() noexcept { return tenants_; }
  // Charges a request to its tenant. The tenants are due their shares of its tokens once end() is
  // called.
  void charge(const request::Request& request) noexcept {
    balances_[request.slot] -= request.num_tokens;
    charged_tokens_ += request.num_tokens;
  }
  // Ends the batch.
  void end() noexcept;

  // Takes back the charge for a request of the last batch that does not run.
  void refund(const request::Request& request) noexcept {
    balances_[request.slot] += request.num_tokens;
  }

 private:
  std::vector<double> balances_;  // tokens, by slot
  std::vector<Tenant> tenants_;
  double window_tokens_ = 0;   // of all tenants
  double charged_tokens_ = 0;  // since the last end()
};

}  // namespace itif::sched
