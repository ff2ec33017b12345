#include "sched/late_requests.h"

#include <algorithm>
#include <tuple>

namespace itif::sched {

LateRequests::Leaving LateRequests::find(const std::vector<request::Request*>& requests,
                                         const ExecutorState& state,
                                         OtherRequests others) noexcept {
  Batch batch{.cost = state.costs.expected, .start_ns = std::max(state.now_ns, state.start_ns)};
  uint64_t earliest_ns = UINT64_MAX;
  for (const request::Request* request : requests) {
    if (request->deadline_ns != 0) earliest_ns = std::min(earliest_ns, request->deadline_ns);
    batch.num_tokens += request->num_tokens;
  }
  if (batch.end_ns() <= earliest_ns) return {};

  ordered_.clear();
  for (request::Request* request : requests)
    ordered_.push_back(
        {.request = request,
         .deadline_ns = request->deadline_ns == 0 ? UINT64_MAX : request->deadline_ns,
         .index = static_cast<uint32_t>(ordered_.size())});
  std::ranges::sort(ordered_, [](const Entry& a, const Entry& b) {
    return std::tie(a.deadline_ns, b.index) < std::tie(b.deadline_ns, a.index);
  });
  size_t first = 0;
  if (others == OtherRequests::kNone) first = num_that_run_first(batch);
  if (others == OtherRequests::kCanWait) first = num_in_time_for_earliest(batch);
  if (first > 0)
    ordered_.erase(ordered_.begin(), ordered_.begin() + static_cast<std::ptrdiff_t>(first));
  else
    ordered_.resize(num_late(batch));
  std::ranges::sort(ordered_, {}, &Entry::index);
  leaving_.clear();
  for (const Entry& entry : ordered_) leaving_.push_back(entry.request);
  return {.requests = leaving_, .runs_next = first > 0};
}

// Returns how many requests, by deadline, run first so that all are in time; 0: no number does.
size_t LateRequests::num_that_run_first(const Batch& batch) const noexcept {
  uint32_t first_tokens = 0;
  for (size_t i = 0; i + 1 < ordered_.size(); ++i) {
    first_tokens += ordered_[i].request->num_tokens;
    const uint64_t first_end_ns = batch.end_ns(batch.start_ns, first_tokens);
    if (first_end_ns > ordered_.front().deadline_ns) return 0;
    if (batch.end_ns(first_end_ns, batch.num_tokens - first_tokens) <= ordered_[i + 1].deadline_ns)
      return i + 1;
  }
  return 0;
}

// Returns how many requests, by deadline, fit in a batch that ends by the earliest deadline; 0: the
// two batches would take too long.
size_t LateRequests::num_in_time_for_earliest(const Batch& batch) const noexcept {
  uint32_t first_tokens = 0;
  size_t count = 0;
  for (; count < ordered_.size(); ++count) {
    const uint32_t tokens = first_tokens + ordered_[count].request->num_tokens;
    if (batch.end_ns(batch.start_ns, tokens) > ordered_.front().deadline_ns) break;
    first_tokens = tokens;
  }
  const double split_ns =
      batch.cost.batch_ns(first_tokens) + batch.cost.batch_ns(batch.num_tokens - first_tokens);
  return split_ns <= kMaxSplitCost * batch.cost.batch_ns(batch.num_tokens) ? count : 0;
}

// Returns how many requests, by deadline, leave so that the rest is in time.
size_t LateRequests::num_late(Batch batch) const noexcept {
  size_t late = 0;
  while (late + 1 < ordered_.size() && batch.end_ns() > ordered_[late].deadline_ns)
    batch.num_tokens -= ordered_[late++].request->num_tokens;
  return late;
}

}  // namespace itif::sched
