#include "sched/batch_policy.h"

#include <algorithm>

#include "base/check.h"

namespace itif::sched {

// policies.inc has ITIF_POLICY(name) per name in meson.build. lib/sched/<name>.cc: make_<name>().
#define ITIF_POLICY(name) std::unique_ptr<BatchPolicy> make_##name(const PolicyOptions& options);
#include "sched/policies.inc"
#undef ITIF_POLICY

bool BatchPolicy::push(request::Request* request, uint64_t now_ns,
                       const BatchCosts& costs) noexcept {
  if (!queue_.push(request)) return false;
  entered(*request, now_ns, costs);
  return true;
}

void BatchPolicy::take_over(BatchPolicy& other, uint64_t now_ns, const BatchCosts& costs) noexcept {
  while (request::Request* request = other.pop()) {
    queue_.append(request);
    entered(*request, now_ns, costs);
  }
}

request::Request* BatchPolicy::pop() noexcept {
  return queue_.num_requests() > 0 ? queue_.pop(queue_.active_slots().front()) : nullptr;
}

void BatchPolicy::refuse_infeasible(const ExecutorState& state,
                                    std::vector<Refused>& refused) noexcept {
  while (request::Request* earliest = queue_.earliest_deadline()) {
    const std::optional<DeadlineMiss> miss = deadline_miss(*earliest, state);
    if (!miss) return;
    remove(earliest);
    refused.push_back({earliest, *miss});
  }
}

void BatchPolicy::refuse_overdue(uint64_t now_ns, uint64_t max_wait_ns,
                                 std::vector<Refused>& refused) noexcept {
  if (max_wait_ns == 0) return;
  for (size_t i = 0; i < queue_.active_slots().size();) {
    request::Request* oldest = queue_.of_tenant(queue_.active_slots()[i]).head;
    if (now_ns - std::min(now_ns, oldest->complete_ns) <= max_wait_ns) {
      ++i;
      continue;
    }
    // If it was the tenant's last, the next active slot takes this place in the list.
    remove(oldest);
    refused.push_back({oldest, DeadlineMiss::kWaitedTooLong});
  }
}

void BatchPolicy::refuse_behind(const ExecutorState& state, Choice& choice) noexcept {
  if (choice.batch.empty()) return;
  uint32_t num_tokens = 0;
  for (const request::Request* request : choice.batch) num_tokens += request->num_tokens;
  ExecutorState after{.now_ns = state.now_ns,
                      .start_ns = std::max(state.now_ns, state.start_ns),
                      .costs = state.costs};
  after.start_ns += static_cast<uint64_t>(state.costs.expected.batch_ns(num_tokens));
  refuse_infeasible(after, choice.refused);
}

Result<std::unique_ptr<BatchPolicy>> make_policy(std::string_view spec,
                                                 const PolicyOptions& options) {
  PolicyOptions with_spec = options;
  ITIF_ASSIGN(with_spec.spec, parse_policy_spec(spec));
#define ITIF_POLICY(known) \
  if (with_spec.spec.name == #known) return make_##known(with_spec);
#include "sched/policies.inc"
#undef ITIF_POLICY
  CHECK(false);  // parse_policy_spec() knows the same names
}

}  // namespace itif::sched
