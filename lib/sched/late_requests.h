// Decides which requests leave a chosen batch so that its deadlines are met. The time of a batch
// depends on all its requests, so a request that would be in time alone may be late in the batch
// that the order has filled.
//
// Three ways are tried. In 1 and 2 the earliest deadlines stay, and the requests that can wait
// leave and run next. In 3 the requests that would be late leave.
// 1. If no other request waits: the requests with the earliest deadlines run first, and the others
//    in a batch after them, if then all are in time.
// 2. If most requests have no deadline, these can wait: the requests with the earliest deadlines
//    run first, together with as many others as are done by the earliest deadline. Two batches must
//    not take much longer than one (kMaxSplitCost).
// 3. Otherwise the request with the earliest deadline leaves, again and again until the rest is in
//    time. Each that leaves makes the batch shorter. At least one stays: a request that would be
//    late alone has been refused before.
// Owned by the executor's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/request.h"
#include "sched/executor_state.h"

namespace itif::sched {

// The waiting requests that are not in the batch.
enum class OtherRequests : uint8_t { kNone, kCanWait, kMayBeLate };

class LateRequests {
 public:
  // The most that a split may cost: the time of both batches, divided by that of the whole batch.
  static constexpr double kMaxSplitCost = 1.2;

  // The span is valid until the next find().
  struct Leaving {
    std::span<request::Request* const> requests;  // in the batch's order
    // The requests run in the next batch. The room that they leave in this one must stay empty.
    bool runs_next = false;
  };

  explicit LateRequests(uint32_t max_requests) {
    ordered_.reserve(max_requests);
    leaving_.reserve(max_requests);
  }

  // Returns the requests of `batch` that should leave it.
  // REQUIRES: at most max_requests, each of which would be in time in a batch alone.
  Leaving find(const std::vector<request::Request*>& batch, const ExecutorState& state,
               OtherRequests others) noexcept;

 private:
  struct Entry {
    request::Request* request = nullptr;
    uint64_t deadline_ns = 0;  // UINT64_MAX: none
    uint32_t index = 0;        // in the batch
  };
  struct Batch {
    const BatchCost& cost;
    uint64_t start_ns = 0;
    uint32_t num_tokens = 0;

    uint64_t end_ns() const noexcept { return end_ns(start_ns, num_tokens); }
    uint64_t end_ns(uint64_t start, uint32_t tokens) const noexcept {
      return start + static_cast<uint64_t>(cost.batch_ns(tokens));
    }
  };

  size_t num_that_run_first(const Batch& batch) const noexcept;
  size_t num_in_time_for_earliest(const Batch& batch) const noexcept;
  size_t num_late(Batch batch) const noexcept;

  std::vector<Entry> ordered_;  // by deadline; ties: the later position in the batch first
  std::vector<request::Request*> leaving_;
};

}  // namespace itif::sched
