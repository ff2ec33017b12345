// Fills a batch from an index of the waiting requests, for the orders that keep one
// (indexed_order.h). Refuses requests that would miss their deadlines as it finds them.
//
// A request can meet its deadline if a batch of it alone would end in time. A full batch may take
// many times as long, and the requests with the earliest deadlines would all be late. So requests
// that the full batch would make late are skipped if others fit. At most kMaxSkippedPerRequest ·
// max_requests are skipped, which bounds the time of a decision.
//
// No request is skipped if one batch takes all that wait, or if BatchLimits::late_run_first.
// late_requests.h then decides which run first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sched/batch_policy.h"
#include "sched/deadline.h"
#include "sched/row_fill.h"
#include "sched/waiting_index.h"

namespace itif::sched {

class IndexFill {
 public:
  // All arguments outlive this object. `late`: empty, with room for all waiting requests.
  IndexFill(GroupQueue& queue, WaitingIndex& index, const ExecutorState& state,
            const BatchLimits& limits, std::vector<request::Request*>& late,
            Choice& choice) noexcept
      : queue_(queue),
        index_(index),
        state_(state),
        late_(late),
        choice_(choice),
        num_refusals_left_(limits.max_requests),
        max_late_(kMaxSkippedPerRequest * limits.max_requests),
        num_others_(choice.batch.size()),
        limits_(limits),
        rows_(limits, choice.batch),
        end_ns_(expected_end_ns()) {}

  const GroupQueue& queue() const noexcept { return queue_; }
  WaitingIndex& index() noexcept { return index_; }
  const BatchLimits& limits() const noexcept { return limits_; }
  const std::vector<request::Request*>& batch() const noexcept { return choice_.batch; }
  // Requests that this object has put into the batch.
  std::span<request::Request* const> own_batch() const noexcept {
    return std::span(choice_.batch).subspan(num_others_);
  }
  void set_slot_tokens(uint32_t slot_tokens) noexcept { choice_.slot_tokens = slot_tokens; }
  RowFill& rows() noexcept { return rows_; }
  bool batch_is_empty() const noexcept { return choice_.batch.empty(); }

  // Returns the first request that `query` finds and that is in time. Refuses requests that would
  // miss their deadlines, skips those that the batch would make late, and calls `query` again.
  // nullptr: `query` finds none, or the refusals have reached max_requests.
  template <class Query>
  request::Request* in_time(const Query& query) noexcept {
    for (;;) {
      request::Request* request = query();
      if (request == nullptr) return nullptr;
      const auto miss = deadline_miss(*request, state_);
      if (!miss && (late_.size() == max_late_ || !is_made_late(*request))) return request;
      if (!miss) {
        index_.detach(*request);
        late_.push_back(request);
        continue;
      }
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
  // Puts the skipped requests back into the index, and skips none from now on. Returns false if
  // none was skipped. REQUIRES: the batch is empty.
  bool readmit_skipped() noexcept {
    end_ns_ = 0;
    rows_.restart();
    return attach_late_ones();
  }
  // Ends the filling: the requests taken leave the queue, except those for which `keeps` returns
  // false. Those requests, and the skipped ones, keep waiting in their old order.
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
    if (!choice_.batch.empty()) attach_late_ones();
  }

 private:
  static constexpr size_t kMaxSkippedPerRequest = 4;

  // Returns when a full batch would end; 0: no request is skipped.
  uint64_t expected_end_ns() const noexcept {
    if (queue_.num_requests() == 0 || limits_.late_run_first) return 0;
    const double mean = static_cast<double>(queue_.num_tokens()) / queue_.num_requests();
    const double rows = static_cast<double>(limits_.rows.number) * limits_.rows.tokens;
    const double tokens =
        std::min({static_cast<double>(queue_.num_tokens()), mean * limits_.max_requests,
                  static_cast<double>(limits_.max_tokens), rows});
    if (tokens >= static_cast<double>(queue_.num_tokens())) return 0;
    const double ns = state_.costs.expected.batch_ns(static_cast<uint32_t>(tokens));
    return std::max(state_.now_ns, state_.start_ns) + static_cast<uint64_t>(ns);
  }
  bool is_made_late(const request::Request& request) const noexcept {
    return request.deadline_ns != 0 && request.deadline_ns < end_ns_;
  }
  bool attach_late_ones() noexcept {
    const bool has_any = !late_.empty();
    for (const request::Request* request : late_) index_.attach(*request);
    late_.clear();
    return has_any;
  }
  void leave(request::Request* request) noexcept {
    index_.erase(*request);
    queue_.remove(request);
  }

  GroupQueue& queue_;
  WaitingIndex& index_;
  const ExecutorState& state_;
  std::vector<request::Request*>& late_;  // skipped: detached from the index
  Choice& choice_;
  uint32_t num_refusals_left_;
  const size_t max_late_;
  const size_t num_others_;  // requests that were in the batch before
  const BatchLimits limits_;
  RowFill rows_;
  uint64_t end_ns_;  // of the batch; 0: requests that it makes late are taken
};

}  // namespace itif::sched
