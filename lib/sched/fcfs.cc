// First come, first served over all tenants of the group, in order of arrival. For comparison with
// fair, and the papers' baseline.
#include <algorithm>

#include "sched/ordered_policy.h"

namespace itif::sched {
namespace {

class Fcfs final : public QueueOrder {
 public:
  void select(GroupQueue& queue, const BatchLimits& limits,
              std::vector<request::Request*>& batch) noexcept override {
    uint64_t left = room(limits, batch);
    while (queue.num_requests() > 0 && batch.size() < limits.max_requests) {
      uint32_t oldest = queue.active_slots().front();
      for (uint32_t slot : queue.active_slots())
        if (queue.of_tenant(slot).head->complete_ns < queue.of_tenant(oldest).head->complete_ns)
          oldest = slot;
      const uint32_t tokens = queue.of_tenant(oldest).head->num_tokens;
      if (tokens > left && !batch.empty()) return;
      left -= std::min<uint64_t>(tokens, left);
      batch.push_back(queue.pop(oldest));
    }
  }
  bool isolates() const noexcept override { return false; }
};

}  // namespace

std::unique_ptr<BatchPolicy> make_fcfs(const PolicyOptions& options) {
  return make_ordered_policy(std::make_unique<Fcfs>(), options);
}

}  // namespace itif::sched
