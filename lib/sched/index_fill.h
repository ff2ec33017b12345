// Fills a batch from an index of the waiting requests, for the orders that keep one
// (indexed_order.h). Refuses requests that would miss their deadlines as it finds them.
#pragma once

#include <cstdint>

#include "sched/batch_policy.h"
#include "sched/deadline.h"
#include "sched/row_fill.h"
#include "sched/waiting_index.h"

namespace itif::sched {

class IndexFill {
 public:
  // All outlive this object.
  IndexFill(GroupQueue& queue, WaitingIndex& index, const ExecutorState& state,
            const BatchLimits& limits, Choice& choice) noexcept
      : queue_(queue),
        index_(index),
        state_(state),
        choice_(choice),
        num_refusals_left_(limits.max_requests),
        num_others_(choice.batch.size()),
        limits_(limits),
        rows_(limits, choice.batch) {}

  const GroupQueue& queue() const noexcept { return queue_; }
  WaitingIndex& index() noexcept { return index_; }
  const BatchLimits& limits() const noexcept { return limits_; }
  const std::vector<request::Request*>& batch() const noexcept { return choice_.batch; }
  void set_slot_tokens(uint32_t slot_tokens) noexcept { choice_.slot_tokens = slot_tokens; }
  RowFill& rows() noexcept { return rows_; }
  bool batch_is_empty() const noexcept { return choice_.batch.empty(); }

  // Returns the request that `query` finds. Refuses those that would miss their deadlines, and asks
  // again. nullptr: `query` finds none, or the refusals have reached max_requests.
  template <class Query>
  request::Request* in_time(const Query& query) noexcept {
    for (;;) {
      request::Request* request = query();
      if (request == nullptr) return nullptr;
      const auto miss = deadline_miss(*request, state_);
      if (!miss) return request;
      if (num_refusals_left_ == 0) return nullptr;
      --num_refusals_left_;
      leave(request);
      choice_.refused.push_back({request, *miss});
    }
  }
  // Puts the request into the row (RowFill::put) and out of the index's orders.
  void take(request::Request* request) noexcept {
    index_.detach(*request);
    rows_.put(request);
  }
  // Ends the filling: the requests taken leave the queue, except those for which `keeps` returns
  // false. These wait on, in their places.
  template <class Keeps>
  void finish(const Keeps& keeps) noexcept {
    size_t kept = num_others_;
    for (size_t i = num_others_; i < choice_.batch.size(); ++i) {
      request::Request* request = choice_.batch[i];
      if (!keeps(*request)) {
        index_.attach(*request);
        continue;
      }
      leave(request);
      choice_.batch[kept++] = request;
    }
    choice_.batch.resize(kept);
  }

 private:
  void leave(request::Request* request) noexcept {
    index_.erase(*request);
    queue_.remove(request);
  }

  GroupQueue& queue_;
  WaitingIndex& index_;
  const ExecutorState& state_;
  Choice& choice_;
  uint32_t num_refusals_left_;
  const size_t num_others_;  // requests that were in the batch before
  const BatchLimits limits_;
  RowFill rows_;
};

}  // namespace itif::sched
