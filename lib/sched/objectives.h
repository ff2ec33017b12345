// The latency objective of each tenant of a queue for the next batch: the one that the tenant has
// set, or an implied one. A tenant that sends little while others flood has an implied objective:
// four times the execution time of its request alone.
//
// The batch bound (batch_bound.h) limits a batch to two fifths of the tightest objective. An urgent
// request joins other requests only if their batch ends within one fifth (urgent.h).
//
// Example: a request that takes 10 ms alone has an implied objective of 40 ms, so batches take at
// most 16 ms. On average it waits for half of such a batch, 8 ms, and then runs. Its latency is
// less than twice that of an idle appliance, whatever the size of the flood.
//
// A tenant sends little if its share of the queued tokens is below a quarter of its weighted share.
// The share is sampled whenever a batch is chosen, and decays over time. One sample alone would be
// wrong: among tenants of equal load, one often has an empty queue just then. Their batches should
// stay large, because short batches lower the throughput.
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
inline constexpr uint32_t kImpliedObjective = 4;  // times TenantQueue::alone_ns

// Sets TenantQueue::objective_ns of every tenant. `isolate`: tenants that send little get an
// implied objective.
Objectives set_objectives(GroupQueue& queue, uint64_t now_ns, bool isolate) noexcept;

}  // namespace itif::sched
