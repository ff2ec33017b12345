// The latency objective of each tenant of a queue for the next batch: the one that the tenant has
// set, or an implied one. A tenant that sends little while others flood has an implied objective:
// four times the execution time of its request alone.
//
// A batch takes at most two fifths of an objective (batch_bound.h), and a batch shared with others
// must end within one fifth (urgent.h). Under the implied objective a request thus waits, on
// average, for half a batch of 1.6 times its own time, and then runs: less than twice its time
// without the flood, however large the flood is.
//
// A tenant sends little if its decayed share of queued tokens, sampled at each batch selection, is
// below a quarter of its weighted share. A flooding tenant always has much waiting; one that sends
// little has a request now and then. A single sample would not distinguish them: among tenants of
// equal load there is always one with an empty lane, and their batches should be large. Short
// batches cost throughput, the flood's first of all.
// Owned by the executor's thread.
#pragma once

#include <cstdint>

#include "sched/group_queue.h"

namespace itif::sched {

struct Objectives {
  uint64_t slo_ns = 0;    // the tightest that a tenant has set; 0: none
  uint64_t batch_ns = 0;  // longest batch, for tenants that send little; 0: no bound
};

// A tenant's objective counts this long after its last request: the next may arrive while a batch
// runs.
inline constexpr uint64_t kObjectiveMemoryNs = 10'000'000'000;
// A tenant sends little if it has less than 1/kLittlePart of its weighted share of the queued
// tokens.
inline constexpr uint32_t kLittlePart = 4;
inline constexpr uint32_t kImpliedObjective = 4;  // times Lane::alone_ns

// Sets Lane::objective_ns of every lane. `isolate`: tenants that send little get an implied
// objective.
Objectives set_objectives(GroupQueue& queue, uint64_t now_ns, bool isolate) noexcept;

}  // namespace itif::sched
