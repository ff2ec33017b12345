#include "sched/batch_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sched/policy_names.h"

namespace itif::sched {

// policies.inc has ITIF_POLICY(name) per name in meson.build; lib/sched/<name>.cc defines it.
#define ITIF_POLICY(name) std::unique_ptr<BatchPolicy> make_##name(const PolicyOptions& options);
#include "sched/policies.inc"
#undef ITIF_POLICY

bool BatchPolicy::push(request::Request* request, uint64_t, const BatchCosts&) noexcept {
  return queue_.push(request);
}

request::Request* BatchPolicy::pop() noexcept {
  return queue_.num_requests() > 0 ? queue_.pop(queue_.active_slots().front()) : nullptr;
}

Result<std::unique_ptr<BatchPolicy>> make_policy(std::string_view name,
                                                 const PolicyOptions& options) {
#define ITIF_POLICY(known) \
  if (name == #known) return make_##known(options);
#include "sched/policies.inc"
#undef ITIF_POLICY
  return fail(Code::kInvalidArgument, fmt::format("unknown scheduler '{}': use one of {}", name,
                                                  fmt::join(kPolicyNames, ", ")));
}

}  // namespace itif::sched
