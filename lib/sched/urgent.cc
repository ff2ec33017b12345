#include "sched/urgent.h"

#include <algorithm>

#include "sched/row_fill.h"

namespace itif::sched {

void Urgent::find_tenants(const GroupQueue& queue, const Objectives& objectives,
                          const BatchLimits& limits) noexcept {
  tenants_.clear();
  const uint64_t weights = queue.active_weights();
  for (const uint32_t slot : queue.active_slots()) {
    const GroupQueue::TenantQueue& tenant = queue.of_tenant(slot);
    if (objectives.of_tenant_ns(slot) == 0) continue;
    const uint64_t share = uint64_t{limits.max_tokens} * tenant.settings.weight / weights;
    if (tenant.num_requests == 1 || tenant.num_tokens <= share) tenants_.push_back(slot);
  }
}

uint64_t Urgent::select(GroupQueue& queue, const Objectives& objectives, const BatchLimits& limits,
                        uint64_t now_ns, std::vector<request::Request*>& batch) noexcept {
  num_urgent_ = 0;
  if (others_next_) {
    others_next_ = false;
    return kNoLimit;
  }
  find_tenants(queue, objectives, limits);
  RowFill fill(limits, batch);
  uint64_t time_ns = kNoLimit;
  const auto deadline_ns = [&](uint32_t slot) {
    return queue.of_tenant(slot).head->complete_ns + objectives.of_tenant_ns(slot);
  };
  while (!tenants_.empty()) {
    const auto first = std::ranges::min_element(tenants_, {}, deadline_ns);
    const GroupQueue::TenantQueue& tenant = queue.of_tenant(*first);
    const request::Request* head = tenant.head;
    if (!fill.makes_room(head->num_tokens)) break;
    const uint64_t waited_ns = now_ns - std::min(now_ns, head->complete_ns);
    const uint64_t aim_ns = objectives.of_tenant_ns(*first) / 5;
    time_ns = std::min(time_ns, aim_ns - std::min(aim_ns, waited_ns));
    fill.put(queue.pop(*first));
    ++num_urgent_;
    if (!tenant.active) tenants_.erase(first);
  }
  return time_ns;
}

void Urgent::chosen(const GroupQueue& queue, const std::vector<request::Request*>& batch) noexcept {
  others_next_ = num_urgent_ > 0 && batch.size() == num_urgent_ && queue.num_requests() > 0;
}

}  // namespace itif::sched
