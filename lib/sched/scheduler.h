// Chooses which waiting requests form the next batch. One file per policy; registered in
// scheduler.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sched/group_queue.h"

namespace itif::sched {

struct BatchLimits {
  uint32_t max_tokens = 4096;
  uint32_t max_requests = 256;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Moves requests from the queue to the end of `batch`, which may hold some. The whole batch stays
  // within the limits; a request of more than max_tokens gets a batch alone. Leaves `batch` empty
  // only if the queue is empty. Allocates nothing once `batch` has its capacity.
  virtual void select(GroupQueue& queue, const BatchLimits& limits, uint64_t now_ns,
                      std::vector<request::Request*>& batch) noexcept = 0;
  // Returns true if the policy shields tenants that send little from those that flood
  // (objectives.h).
  virtual bool isolates() const noexcept = 0;
};

// Returns the tokens that fit in `limits` after those of `batch`.
uint64_t room(const BatchLimits& limits, const std::vector<request::Request*>& batch) noexcept;

// `name`: "fair" or "fcfs". Errors: kInvalidArgument, which lists the names.
Result<std::unique_ptr<Scheduler>> make_scheduler(std::string_view name);

}  // namespace itif::sched
