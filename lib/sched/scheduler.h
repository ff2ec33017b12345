// Which waiting requests make the next batch. One file a policy; registered in scheduler.cc.
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
  // Moves requests from the queue to `batch`, behind those that it holds, so that all of it is within
  // the limits; a request of more than max_tokens alone. Leaves `batch` empty only if the queue is.
  // noexcept and free of allocation once `batch` has its capacity.
  virtual void select(GroupQueue& queue, const BatchLimits& limits, uint64_t now_ns,
                      std::vector<request::Request*>& batch) noexcept = 0;
  // Whether tenants that send little are kept from waiting for those that flood (objectives.h).
  virtual bool isolates() const noexcept = 0;
};

// Tokens that a batch of `limits` has left behind those of `batch`.
uint64_t room(const BatchLimits& limits, const std::vector<request::Request*>& batch) noexcept;

// "fair" or "fcfs". Errors: kInvalidArgument, with the names there are.
Result<std::unique_ptr<Scheduler>> make_scheduler(std::string_view name);

}  // namespace itif::sched
