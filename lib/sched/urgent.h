// Chooses urgent requests: those of tenants with a latency objective. They enter a batch before the
// requests that the order (queue_order.h) chooses, so they wait only for the batch that runs when
// they arrive, not for the backlog.
//
// Other requests may join an urgent one if the batch ends within a fifth of the urgent request's
// objective, counted from its arrival. Otherwise it gets a batch of urgent requests only, if the
// policy allows such a small batch (small_batches.h). The order alone chooses the batch after that.
// A tenant's requests are urgent only while exactly one waits, or while all that wait are at most
// the tenant's weighted share of a batch. The last two rules protect the shares of the other
// tenants.
//
// Owned by the executor's thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sched/batch_limits.h"
#include "sched/group_queue.h"
#include "sched/objectives.h"

namespace itif::sched {

class Urgent {
 public:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  explicit Urgent(uint32_t max_slots) { tenants_.reserve(max_slots); }

  // Moves urgent requests to `batch` by deadline (arrival + objective), within the limits, as
  // QueueOrder::select does. Returns how long the batch may take if others join it, ns. Returns
  // kNoLimit and leaves `batch` unchanged if no request is urgent now.
  uint64_t select(GroupQueue& queue, const Objectives& objectives, const BatchLimits& limits,
                  uint64_t now_ns, std::vector<request::Request*>& batch) noexcept;
  // Notes the whole batch, after the order has added to it.
  void chosen(const GroupQueue& queue, const std::vector<request::Request*>& batch) noexcept;

 private:
  void find_tenants(const GroupQueue& queue, const Objectives& objectives,
                    const BatchLimits& limits) noexcept;

  std::vector<uint32_t> tenants_;  // slots that go first in this batch
  size_t num_urgent_ = 0;          // requests of this batch
  bool others_next_ = false;
};

}  // namespace itif::sched
