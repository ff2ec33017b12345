#include "sched/objectives.h"

#include <algorithm>

namespace itif::sched {
namespace {

// Decayed queued tokens of the active tenants, and the sum of their weights.
struct Load {
  double tokens = 0;
  uint64_t weights = 0;
};

bool sends_little(double waiting_tokens, uint32_t weight, const Load& load) {
  return kLittleDivisor * waiting_tokens * static_cast<double>(load.weights) < load.tokens * weight;
}

uint64_t tighter(uint64_t a_ns, uint64_t b_ns) {
  return a_ns == 0 ? b_ns : b_ns == 0 ? a_ns : std::min(a_ns, b_ns);
}

}  // namespace

void Objectives::pushed(const request::Request& request, uint64_t now_ns,
                        uint64_t alone_ns) noexcept {
  Tenant& tenant = tenants_[request.slot];
  tenant.alone_ns = alone_ns;
  tenant.last_push_ns = now_ns;
}

Objectives::Tightest Objectives::set(const GroupQueue& queue, uint64_t now_ns,
                                     bool isolate) noexcept {
  for (const uint32_t slot : queue.active_slots())
    tenants_[slot].waiting_tokens.add(static_cast<double>(queue.of_tenant(slot).num_tokens),
                                      now_ns);
  Load load;
  for (uint32_t slot = 0; slot < tenants_.size(); ++slot) {
    const Tenant& tenant = tenants_[slot];
    if (!tenant.sent_recently(now_ns)) continue;
    load.tokens += tenant.waiting_tokens.at(now_ns);
    load.weights += queue.of_tenant(slot).settings.weight;
  }
  Tightest tightest;
  for (uint32_t slot = 0; slot < tenants_.size(); ++slot) {
    Tenant& tenant = tenants_[slot];
    tenant.objective_ns = 0;
    if (!tenant.sent_recently(now_ns)) continue;
    const auto& settings = queue.of_tenant(slot).settings;
    tenant.objective_ns = settings.slo_ns;
    tightest.slo_ns = tighter(tightest.slo_ns, settings.slo_ns);
    if (settings.slo_ns != 0 && settings.slo_ns * 2 / 5 < tenant.alone_ns)
      tightest.least_batch_ns = std::max(tightest.least_batch_ns, 2 * tenant.alone_ns);
    if (!isolate || settings.slo_ns != 0 ||
        !sends_little(tenant.waiting_tokens.at(now_ns), settings.weight, load))
      continue;
    if (tenant.alone_ns == 0) continue;  // unknown
    tenant.objective_ns = std::max(kMinImpliedNs, kImpliedObjective * tenant.alone_ns);
    tightest.batch_ns = tighter(tightest.batch_ns, tenant.objective_ns * 2 / 5);
    tightest.efficient_ns = tighter(tightest.efficient_ns, kLongestEfficient * tenant.alone_ns);
  }
  return tightest;
}

}  // namespace itif::sched
