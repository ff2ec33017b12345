#include "sched/continuous_batching.h"

#include <utility>

namespace itif::sched {

ContinuousBatching::ContinuousBatching(std::unique_ptr<QueueOrder> order,
                                       const PolicyOptions& options)
    : BatchPolicy(options.queue),
      order_(std::move(order)),
      limits_(options.limits),
      max_wait_ns_(order_->knows_backlog() ? 0 : options.max_wait_ns) {
  selection_.reserve(options);
}

void ContinuousBatching::entered(request::Request& request, uint64_t, const BatchCosts&) noexcept {
  order_->pushed(queue_, request);
}

request::Request* ContinuousBatching::pop() noexcept {
  if (next_ < selection_.batch.size()) return selection_.batch[next_++];
  request::Request* request = BatchPolicy::pop();
  if (request != nullptr) order_->removed(*request);
  return request;
}

void ContinuousBatching::remove(request::Request* request) noexcept {
  order_->removed(*request);
  BatchPolicy::remove(request);
}

uint32_t ContinuousBatching::num_waiting() const noexcept {
  return queue_.num_requests() + static_cast<uint32_t>(selection_.batch.size() - next_);
}

void ContinuousBatching::choose(const ExecutorState& state, Choice& choice) noexcept {
  choice.clear();
  refuse_overdue(state.now_ns, max_wait_ns_, choice.refused);
  // Without costs: the batch has no expected end.
  refuse_infeasible({.now_ns = state.now_ns}, choice.refused);
  if (next_ == selection_.batch.size()) {
    selection_.clear();
    next_ = 0;
    BatchLimits limits = limits_;
    if (order_->fills_rows()) limits.rows = state.rows;
    selection_.has_rows = limits.rows.have_length();
    order_->select(queue_, {.now_ns = state.now_ns, .start_ns = state.now_ns}, limits, selection_);
    choice.refused.insert(choice.refused.end(), selection_.refused.begin(),
                          selection_.refused.end());
  }
  choice.has_rows = selection_.has_rows;
  choice.slot_tokens = selection_.slot_tokens;
  for (; next_ < selection_.batch.size(); ++next_) {
    request::Request* request = selection_.batch[next_];
    if (deadline_passed(*request, state.now_ns)) {
      choice.refused.push_back({request, DeadlineMiss::kPassed});
      continue;
    }
    if (state.capacity != nullptr && !state.capacity->reserve(*request)) return;
    choice.batch.push_back(request);
  }
}

}  // namespace itif::sched
