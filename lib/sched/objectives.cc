#include "sched/objectives.h"

#include <algorithm>

namespace itif::sched {
namespace {

bool sent_recently(const GroupQueue::Lane& lane, uint64_t now_ns) {
  return lane.last_push_ns != GroupQueue::kNever && now_ns - lane.last_push_ns < kObjectiveMemoryNs;
}

// Decayed queued tokens of the active tenants, and the sum of their weights.
struct Load {
  double tokens = 0;
  uint64_t weights = 0;
};

bool sends_little(const GroupQueue::Lane& lane, uint64_t now_ns, const Load& load) {
  return kLittlePart * lane.waiting_tokens.at(now_ns) * static_cast<double>(load.weights) <
         load.tokens * lane.settings.weight;
}

uint64_t tighter(uint64_t a_ns, uint64_t b_ns) {
  return a_ns == 0 ? b_ns : b_ns == 0 ? a_ns : std::min(a_ns, b_ns);
}

}  // namespace

Objectives set_objectives(GroupQueue& queue, uint64_t now_ns, bool isolate) noexcept {
  for (const uint32_t slot : queue.active_slots()) {
    GroupQueue::Lane& lane = queue.lane(slot);
    lane.waiting_tokens.add(static_cast<double>(lane.num_tokens), now_ns);
  }
  Load load;
  for (uint32_t slot = 0; slot < queue.num_slots(); ++slot) {
    const GroupQueue::Lane& lane = queue.lane(slot);
    if (!sent_recently(lane, now_ns)) continue;
    load.tokens += lane.waiting_tokens.at(now_ns);
    load.weights += lane.settings.weight;
  }
  Objectives objectives;
  for (uint32_t slot = 0; slot < queue.num_slots(); ++slot) {
    GroupQueue::Lane& lane = queue.lane(slot);
    lane.objective_ns = 0;
    if (!sent_recently(lane, now_ns)) continue;
    lane.objective_ns = lane.settings.slo_ns;
    objectives.slo_ns = tighter(objectives.slo_ns, lane.settings.slo_ns);
    if (!isolate || lane.settings.slo_ns != 0 || !sends_little(lane, now_ns, load)) continue;
    lane.objective_ns = kImpliedObjective * lane.alone_ns;
    objectives.batch_ns = tighter(objectives.batch_ns, kImpliedObjective * lane.alone_ns * 2 / 5);
  }
  return objectives;
}

}  // namespace itif::sched
