#include "results.h"

#include <algorithm>

namespace itif::loadgen {

void TargetResults::merge(const TargetResults& other) {
  sent += other.sent;
  answered += other.answered;
  in_time += other.in_time;
  utility += other.utility;
  lost += other.lost;
  refused += other.refused;
  for (size_t i = 0; i < refused_by.size(); ++i) refused_by[i] += other.refused_by[i];
  latency_ns.merge(other.latency_ns);
}

TargetResults Results::total() const {
  TargetResults sum;
  for (const TargetResults& target : targets) sum.merge(target);
  return sum;
}

void Results::merge(const Results& other) {
  for (size_t i = 0; i < targets.size(); ++i) targets[i].merge(other.targets[i]);
  warmup_requests += other.warmup_requests;
  unsent += other.unsent;
  sent_again += other.sent_again;
  measured_ns = std::max(measured_ns, other.measured_ns);
  last_lateness_ns = std::max(last_lateness_ns, other.last_lateness_ns);
  was_full |= other.was_full;
  dropped_here += other.dropped_here;
  lateness_ns.merge(other.lateness_ns);
  server_ns.merge(other.server_ns);
  refusal_delay_ns.merge(other.refusal_delay_ns);
  engine.merge(other.engine);
}

}  // namespace itif::loadgen
