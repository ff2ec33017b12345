#include "sched/batch_policy.h"

#include "base/check.h"

namespace itif::sched {

// policies.inc has ITIF_POLICY(name) per name in meson.build; lib/sched/<name>.cc defines it.
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

void BatchPolicy::refuse_infeasible(const ExecutorState& state, size_t max,
                                    std::vector<Refused>& refused) noexcept {
  for (; max > 0; --max) {
    request::Request* earliest = queue_.earliest_deadline();
    if (earliest == nullptr) return;
    const std::optional<DeadlineMiss> miss = deadline_miss(*earliest, state);
    if (!miss) return;
    remove(earliest);
    refused.push_back({earliest, *miss});
  }
}

Result<std::unique_ptr<BatchPolicy>> make_policy(std::string_view spec,
                                                 const PolicyOptions& options) {
  PolicyOptions of = options;
  ITIF_ASSIGN(of.spec, parse_policy_spec(spec));
#define ITIF_POLICY(known) \
  if (of.spec.name == #known) return make_##known(of);
#include "sched/policies.inc"
#undef ITIF_POLICY
  CHECK(false);  // parse_policy_spec() knows the same names
}

}  // namespace itif::sched
