// Finds the requests of a chosen batch that should leave it because the batch would make them late.
// The time of a batch depends on all its requests, so a request that could be met alone may be late
// in the batch that the order has filled.
//
// Two ways are tried:
// 1. If no other request waits: the requests with the earliest deadlines run first, and the others
//    in a batch after them, if then all are in time.
// 2. Otherwise the request with the earliest deadline leaves, until the rest is in time. Each that
//    leaves makes the batch shorter. At least one stays: a request that would be late alone is
//    refused before.
// Owned by the executor's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/request.h"
#include "sched/executor_state.h"

namespace itif::sched {

class LateRequests {
 public:
  explicit LateRequests(uint32_t max_requests) {
    ordered_.reserve(max_requests);
    leaving_.reserve(max_requests);
  }

  // Returns the requests of `batch` that should leave it, in the batch's order. They stay valid
  // until the next call. `others_wait`: requests wait that are not in the batch.
  // REQUIRES: at most max_requests, each of which would be in time in a batch alone.
  std::span<request::Request* const> find(const std::vector<request::Request*>& batch,
                                          const ExecutorState& state, bool others_wait) noexcept;

 private:
  struct Entry {
    request::Request* request = nullptr;
    uint64_t deadline_ns = 0;  // UINT64_MAX: none
    uint32_t index = 0;        // in the batch
  };

  size_t num_that_run_first(uint64_t start_ns, const BatchCost& cost,
                            uint32_t num_tokens) const noexcept;
  size_t num_late(uint64_t start_ns, const BatchCost& cost, uint32_t num_tokens) const noexcept;

  std::vector<Entry> ordered_;  // by deadline; equal ones: the batch's last first
  std::vector<request::Request*> leaving_;
};

}  // namespace itif::sched
