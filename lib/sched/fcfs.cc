// First come, first served over all tenants of the group, in order of arrival. For comparison with
// fair, and the papers' baseline.
#include "sched/ordered_policy.h"
#include "sched/row_fill.h"

namespace itif::sched {
namespace {

class Fcfs final : public QueueOrder {
 public:
  void select(GroupQueue& queue, const ExecutorState&, const BatchLimits& limits,
              Choice& choice) noexcept override {
    RowFill fill(limits, choice.batch);
    while (queue.num_requests() > 0) {
      uint32_t oldest = queue.active_slots().front();
      for (uint32_t slot : queue.active_slots())
        if (queue.of_tenant(slot).head->complete_ns < queue.of_tenant(oldest).head->complete_ns)
          oldest = slot;
      if (!fill.makes_room(queue.of_tenant(oldest).head->num_tokens)) return;
      fill.put(queue.pop(oldest));
    }
  }
  bool isolates() const noexcept override { return false; }
};

}  // namespace

std::unique_ptr<BatchPolicy> make_fcfs(const PolicyOptions& options) {
  return make_ordered_policy(std::make_unique<Fcfs>(), options);
}

}  // namespace itif::sched
