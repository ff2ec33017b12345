#include "sched/batch_bound.h"

#include <algorithm>

namespace itif::sched {

void BatchBound::ran(uint32_t num_tokens, uint64_t execute_ns, uint64_t slo_ns) noexcept {
  if (slo_ns == 0) return;
  const uint64_t target_ns = slo_ns * 2 / 5;
  if (execute_ns > target_ns) {
    const double fits = static_cast<double>(target_ns) / static_cast<double>(execute_ns);
    // A small batch may be late because the objective is tight or the machine busy. So one late
    // batch lowers the bound to no less than half of its tokens, and to at least one token, which
    // lets one request through.
    const auto lowered = static_cast<uint32_t>(num_tokens * std::max(0.5, 0.9 * fits));
    tokens_ = std::max(1u, std::min(tokens_, lowered));
  } else if (num_tokens >= tokens_ - tokens_ / 8) {  // the bound limited the batch
    tokens_ = std::min<uint64_t>(max_tokens_, uint64_t{tokens_} + tokens_ / 16 + 1);
  }
}

}  // namespace itif::sched
