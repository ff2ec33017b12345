// Last come, first served over all tenants of the group. Under overload the answered requests wait
// for little more than one batch, and the oldest are refused. For comparison with fair and fcfs,
// which refuse on arrival.
#include <algorithm>

#include "sched/ordered_policy.h"
#include "sched/row_fill.h"

namespace itif::sched {
namespace {

class Lcfs final : public QueueOrder {
 public:
  void select(GroupQueue& queue, const ExecutorState&, const BatchLimits& limits,
              Choice& choice) noexcept override {
    RowFill fill(limits, choice.batch);
    while (queue.num_requests() > 0) {
      request::Request* newest = nullptr;
      for (const uint32_t slot : queue.active_slots()) {
        request::Request* candidate = newest_of(queue.of_tenant(slot));
        if (newest == nullptr || candidate->complete_ns > newest->complete_ns) newest = candidate;
      }
      if (!fill.makes_room(newest->num_tokens)) return;
      queue.remove(newest);
      fill.put(newest);
    }
  }
  // Unknown: requests that arrive later are served before this one.
  GroupQueue::Backlog backlog_ahead(const GroupQueue&, uint32_t) const noexcept override {
    return {};
  }
  bool knows_backlog() const noexcept override { return false; }
  bool isolates() const noexcept override { return false; }

 private:
  // A request that a batch gave back (GroupQueue::put_back) is at the head.
  static request::Request* newest_of(const GroupQueue::TenantQueue& tenant) noexcept {
    return std::max(tenant.head, tenant.tail,
                    [](const auto* a, const auto* b) { return a->complete_ns < b->complete_ns; });
  }
};

}  // namespace

std::unique_ptr<BatchPolicy> make_lcfs(const PolicyOptions& options) {
  return make_ordered_policy(std::make_unique<Lcfs>(), options);
}

}  // namespace itif::sched
