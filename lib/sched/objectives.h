// What latency the tenants of a queue are owed in this turn: the objective that a tenant has set, or, of
// one that sends little while others flood, four times what its request takes by itself.
//
// Two fifths of an objective bound a batch (batch_bound.h), and what rides along must end within one fifth
// (urgent.h). With the implied one, a request thus waits for half a batch of 1.6 times its own time on
// average, and then takes its own: less than twice what it would without the flood, however large that is.
//
// Who floods is told by what has been found waiting of late, turn by turn: a tenant that sends more than is
// served has much, one that sends little has a request now and then, whatever is served. What waits just
// now would not tell: among tenants of like load there is always one with an empty lane, and their
// batches are best large. Short batches cost throughput, the flood's first of all.
// Owned by the executor's thread.
#pragma once

#include <cstdint>

#include "sched/group_queue.h"

namespace itif::sched {

struct Objectives {
  uint64_t slo_ns = 0;    // the tightest that a tenant has set; 0: none
  uint64_t batch_ns = 0;  // what a batch may take, for those that send little; 0: no bound
};

// How long a tenant's last request is remembered: its next may come while a batch runs.
inline constexpr uint64_t kObjectiveMemoryNs = 10'000'000'000;
// A tenant sends little if it had less than this part of its share, by weight, of all that waited.
inline constexpr uint32_t kLittlePart = 4;
inline constexpr uint32_t kImpliedObjective = 4;  // times what its last request takes by itself

// Sets Lane::objective_ns of every lane. `isolate`: those that send little are owed one too.
Objectives set_objectives(GroupQueue& queue, uint64_t now_ns, bool isolate) noexcept;

}  // namespace itif::sched
