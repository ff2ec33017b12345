#include "sched/objectives.h"

#include <algorithm>

namespace itif::sched {
namespace {

bool sent_recently(const GroupQueue::TenantQueue& tenant, uint64_t now_ns) {
  return tenant.last_push_ns != GroupQueue::kNever &&
         now_ns - tenant.last_push_ns < kObjectiveMemoryNs;
}

// Decayed queued tokens of the active tenants, and the sum of their weights.
struct Load {
  double tokens = 0;
  uint64_t weights = 0;
};

bool sends_little(const GroupQueue::TenantQueue& tenant, uint64_t now_ns, const Load& load) {
  return kLittlePart * tenant.waiting_tokens.at(now_ns) * static_cast<double>(load.weights) <
         load.tokens * tenant.settings.weight;
}

uint64_t tighter(uint64_t a_ns, uint64_t b_ns) {
  return a_ns == 0 ? b_ns : b_ns == 0 ? a_ns : std::min(a_ns, b_ns);
}

}  // namespace

Objectives set_objectives(GroupQueue& queue, uint64_t now_ns, bool isolate) noexcept {
  for (const uint32_t slot : queue.active_slots()) {
    GroupQueue::TenantQueue& tenant = queue.of_tenant(slot);
    tenant.waiting_tokens.add(static_cast<double>(tenant.num_tokens), now_ns);
  }
  Load load;
  for (uint32_t slot = 0; slot < queue.num_slots(); ++slot) {
    const GroupQueue::TenantQueue& tenant = queue.of_tenant(slot);
    if (!sent_recently(tenant, now_ns)) continue;
    load.tokens += tenant.waiting_tokens.at(now_ns);
    load.weights += tenant.settings.weight;
  }
  Objectives objectives;
  for (uint32_t slot = 0; slot < queue.num_slots(); ++slot) {
    GroupQueue::TenantQueue& tenant = queue.of_tenant(slot);
    tenant.objective_ns = 0;
    if (!sent_recently(tenant, now_ns)) continue;
    tenant.objective_ns = tenant.settings.slo_ns;
    objectives.slo_ns = tighter(objectives.slo_ns, tenant.settings.slo_ns);
    if (!isolate || tenant.settings.slo_ns != 0 || !sends_little(tenant, now_ns, load)) continue;
    tenant.objective_ns = kImpliedObjective * tenant.alone_ns;
    objectives.batch_ns = tighter(objectives.batch_ns, kImpliedObjective * tenant.alone_ns * 2 / 5);
  }
  return objectives;
}

}  // namespace itif::sched
