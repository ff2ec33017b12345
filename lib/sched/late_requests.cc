#include "sched/late_requests.h"

#include <algorithm>
#include <tuple>

namespace itif::sched {
namespace {

uint64_t end_ns(uint64_t start_ns, const BatchCost& cost, uint32_t num_tokens) noexcept {
  return start_ns + static_cast<uint64_t>(cost.batch_ns(num_tokens));
}

}  // namespace

std::span<request::Request* const> LateRequests::find(const std::vector<request::Request*>& batch,
                                                      const ExecutorState& state,
                                                      bool others_wait) noexcept {
  const BatchCost& cost = state.costs.expected;
  const uint64_t start_ns = std::max(state.now_ns, state.start_ns);
  uint64_t earliest_ns = UINT64_MAX;
  uint32_t num_tokens = 0;
  for (const request::Request* request : batch) {
    if (request->deadline_ns != 0) earliest_ns = std::min(earliest_ns, request->deadline_ns);
    num_tokens += request->num_tokens;
  }
  if (end_ns(start_ns, cost, num_tokens) <= earliest_ns) return {};

  ordered_.clear();
  for (request::Request* request : batch)
    ordered_.push_back(
        {.request = request,
         .deadline_ns = request->deadline_ns == 0 ? UINT64_MAX : request->deadline_ns,
         .index = static_cast<uint32_t>(ordered_.size())});
  std::ranges::sort(ordered_, [](const Entry& a, const Entry& b) {
    return std::tie(a.deadline_ns, b.index) < std::tie(b.deadline_ns, a.index);
  });
  const size_t first = others_wait ? 0 : num_that_run_first(start_ns, cost, num_tokens);
  if (first > 0)
    ordered_.erase(ordered_.begin(), ordered_.begin() + static_cast<std::ptrdiff_t>(first));
  else
    ordered_.resize(num_late(start_ns, cost, num_tokens));
  std::ranges::sort(ordered_, {}, &Entry::index);
  leaving_.clear();
  for (const Entry& entry : ordered_) leaving_.push_back(entry.request);
  return leaving_;
}

// Returns how many requests, by deadline, run first so that all are in time; 0: no number does.
size_t LateRequests::num_that_run_first(uint64_t start_ns, const BatchCost& cost,
                                        uint32_t num_tokens) const noexcept {
  uint32_t first_tokens = 0;
  for (size_t i = 0; i + 1 < ordered_.size(); ++i) {
    first_tokens += ordered_[i].request->num_tokens;
    const uint64_t first_end_ns = end_ns(start_ns, cost, first_tokens);
    if (first_end_ns > ordered_.front().deadline_ns) return 0;
    if (end_ns(first_end_ns, cost, num_tokens - first_tokens) <= ordered_[i + 1].deadline_ns)
      return i + 1;
  }
  return 0;
}

// Returns how many requests, by deadline, leave so that the rest is in time.
size_t LateRequests::num_late(uint64_t start_ns, const BatchCost& cost,
                              uint32_t num_tokens) const noexcept {
  size_t late = 0;
  while (late + 1 < ordered_.size() &&
         end_ns(start_ns, cost, num_tokens) > ordered_[late].deadline_ns)
    num_tokens -= ordered_[late++].request->num_tokens;
  return late;
}

}  // namespace itif::sched
