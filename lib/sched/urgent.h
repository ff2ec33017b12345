// Requests of tenants with a latency objective go before the scheduler's choice, so that what others have
// queued costs them the batch that runs when they arrive, and hardly more: while others wait, they ride
// in a batch that ends within a fifth of their objective from their arrival, or without the others.
//
// The others keep their share: a tenant goes first only while what it has waiting is one request or no
// more than its share of a batch, and a batch without the others is followed by the scheduler's own.
// Owned by the executor's thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sched/group_queue.h"
#include "sched/scheduler.h"

namespace itif::sched {

class Urgent {
 public:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  explicit Urgent(uint32_t max_slots) { lanes_.reserve(max_slots); }

  // Moves such requests to `batch`, by deadline (arrival and objective), within the limits, as
  // Scheduler::select does. Returns how long the batch may take with others in it, ns; kNoLimit: there
  // are none, and `batch` is as it was.
  uint64_t select(GroupQueue& queue, const BatchLimits& limits, uint64_t now_ns,
                  std::vector<request::Request*>& batch) noexcept;
  // The whole batch, when the scheduler has added to it.
  void chosen(const GroupQueue& queue, const std::vector<request::Request*>& batch) noexcept;

 private:
  void find_lanes(const GroupQueue& queue, const BatchLimits& limits) noexcept;

  std::vector<uint32_t> lanes_;  // slots that go first, of this turn
  size_t num_urgent_ = 0;        // requests, of this turn
  bool others_next_ = false;
};

}  // namespace itif::sched
