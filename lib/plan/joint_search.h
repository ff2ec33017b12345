// Searches all plans for the cheapest. ITIF's two stages are optimised together.
//
// The search is a dynamic program. A plan is a sequence of calls, longest first. Each call contains
// the longest remaining request of all tenants, and takes the longest remaining requests of each of
// its tenants. Some optimal plan has this form if costs never fall with length: exchanging two
// requests of a tenant between calls turns any plan into one that costs no more. A state is
// therefore the number of remaining requests of each tenant.
//
// Tenants with n requests each have Π (n + 1) states, exponential in the number of tenants. A state
// is skipped if no plan through it can cost less than the best known plan. The lower bound of its
// rest is the sum, over the remaining requests, of a request's share in the cheapest call that
// could contain it.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "plan/padded.h"

namespace itif::plan {

class JointSearch {
 public:
  static constexpr uint32_t kMaxStates = 1u << 16;

  // `costs` outlives this.
  JointSearch(const CostModel& costs, const PlanLimits& limits);

  // Finds the cheapest plan. If it costs less than `bound_ns`, replaces `batches` and `ends` (as in
  // OperatorBatching::pack) by it and returns its cost, ns. Otherwise, or if the search would take
  // more than max_steps, returns bound_ns and changes nothing. Allocates nothing.
  double improve(const RequestOrder& order, double bound_ns, uint64_t max_steps,
                 std::vector<PaddedBatch>& batches, std::vector<uint32_t>& ends) noexcept;
  // Returns true if the last search ended within its steps, so that its result is the optimum.
  bool is_complete() const noexcept { return is_complete_; }

 private:
  struct Tenant {
    uint32_t first = 0;  // rank of its first request
    uint32_t num_requests = 0;
    uint32_t stride = 0;     // of its number in a state
    uint32_t remaining = 0;  // in the state that is expanded
  };
  // The cheapest way to a state.
  struct State {
    double cost_ns = 0;
    uint32_t from = 0;
    uint32_t size = 0;  // requests of each mini-batch of the call in between
  };

  bool make_states(const RequestOrder& order) noexcept;
  void find_shares(const RequestOrder& order) noexcept;
  double min_rest_ns() const noexcept;
  void expand(const RequestOrder& order, uint32_t state) noexcept;
  void add_tenant(size_t tenant, uint32_t count, uint32_t next) noexcept;
  void reach(uint32_t next, uint32_t count) noexcept;
  void trace(const RequestOrder& order, std::vector<PaddedBatch>& batches,
             std::vector<uint32_t>& ends) const noexcept;

  const CostModel& costs_;
  const PlanLimits limits_;
  std::vector<Tenant> tenants_;
  std::vector<State> states_;   // [Π (n + 1)]: how many requests of each tenant remain
  std::vector<double> shares_;  // [requests + 1], cumulative by rank
  uint32_t num_states_ = 0;
  uint64_t steps_ = 0, max_steps_ = 0;
  double bound_ns_ = 0;
  bool is_complete_ = false;
  // The call that expand() tries.
  uint32_t state_ = 0, size_ = 0, max_count_ = 0;
  size_t longest_tenant_ = 0;
  double gemm_ns_ = 0;
  CostRow batched_;
};

}  // namespace itif::plan
