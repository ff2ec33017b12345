// The latency objective of each tenant of a queue for the next batch: the one that the tenant has
// set, or an implied one. A tenant that sends little while others flood has an implied objective:
// four times the execution time of its request alone, and at least 10 ms.
//
// A batch takes at most two fifths of the tightest objective. The batch bound (batch_control.h)
// ensures this for objectives that are set, and the undisturbed cost for implied ones
// (dynamic_batching.h). An urgent request joins other requests only if their batch ends within one
// fifth (urgent.h).
//
// Example: a request that takes 10 ms alone has an implied objective of 40 ms, so batches take at
// most 16 ms. On average it waits for half of such a batch, 8 ms, and then runs. Its latency is
// less than twice that of an idle appliance, whatever the size of the flood, if batches of 16 ms
// are efficient.
//
// Batches of a small model would become so short under this rule that they are mostly fixed cost:
// BERT-tiny takes 0.1 ms alone. So batches of up to 4 ms are always allowed. A client notices
// them less than its network. Larger models lose throughput, too, if batches are smaller than an
// efficient size (BatchCost::efficient_tokens). So batches may grow until their size is efficient,
// or until they take eight times as long as the request alone, whichever is shorter. With twice the
// time, batches of a model of 48 layers lose 43 % of the throughput, with eight times 8 %
// (simulated; docs/scheduling.md).
//
// An objective may be too tight for batches of a single request, which then take more than two
// fifths of it. Batches as short as one request do not meet it either, and spend most of their time
// on fixed cost. So it never limits batches to less than twice the time of a request alone.
//
// A tenant sends little if its share of the queued tokens is below a quarter of its weighted share.
// The share is sampled whenever a batch is chosen, and decays over time. One sample alone would be
// wrong: among tenants of equal load, one often has an empty queue just then. Their batches should
// stay large, because short batches lower the throughput.
// Owned by the executor's thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/decayed_sum.h"
#include "sched/group_queue.h"

namespace itif::sched {

// A tenant's objective counts this long after its last request: the next may arrive while a batch
// runs.
inline constexpr uint64_t kObjectiveMemoryNs = 10'000'000'000;
// A tenant sends little if it has less than 1/kLittleDivisor of its weighted share of the queued
// tokens.
inline constexpr uint32_t kLittleDivisor = 4;
inline constexpr uint32_t kImpliedObjective = 4;  // times a request's time alone
inline constexpr uint64_t kMinImpliedNs = 10'000'000;
inline constexpr uint32_t kLongestEfficient = 8;  // times a request's time alone

class Objectives {
 public:
  struct Tightest {
    uint64_t slo_ns = 0;        // the tightest that a tenant has set; 0: none
    uint64_t batch_ns = 0;      // longest batch, for tenants that send little; 0: no bound
    uint64_t efficient_ns = 0;  // the same for a batch of an efficient size
    // Batches may take this long whatever objectives are set; 0: unknown, or not needed.
    uint64_t least_batch_ns = 0;
  };

  explicit Objectives(uint32_t max_slots) : tenants_(max_slots) {}

  // Notes a request that the queue has taken in. `alone_ns`: its time in a batch alone; 0: unknown.
  void pushed(const request::Request& request, uint64_t now_ns, uint64_t alone_ns) noexcept;
  // Sets the objective of every tenant for the next batch. `isolate`: tenants that send little get
  // an implied objective.
  Tightest set(const GroupQueue& queue, uint64_t now_ns, bool isolate) noexcept;
  // Returns the tenant's objective for the next batch; 0: none.
  uint64_t of_tenant_ns(uint32_t slot) const noexcept { return tenants_[slot].objective_ns; }

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  struct Tenant {
    uint64_t alone_ns = 0;  // time of its last request in a batch alone; 0: unknown
    uint64_t last_push_ns = kNever;
    DecayedSum waiting_tokens;  // sampled at each batch selection
    uint64_t objective_ns = 0;

    bool sent_recently(uint64_t now_ns) const noexcept {
      return last_push_ns != kNever && now_ns - last_push_ns < kObjectiveMemoryNs;
    }
  };

  std::vector<Tenant> tenants_;  // [max_slots]
};

}  // namespace itif::sched
