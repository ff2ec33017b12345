#include "sched/continuous_batching.h"

#include <utility>

namespace itif::sched {

ContinuousBatching::ContinuousBatching(std::unique_ptr<QueueOrder> order,
                                       const PolicyOptions& options)
    : BatchPolicy(options.queue), order_(std::move(order)), limits_(options.limits) {
  selected_.reserve(options.limits.max_requests);
}

bool ContinuousBatching::push(request::Request* request, uint64_t now_ns,
                              const BatchCosts& costs) noexcept {
  if (!BatchPolicy::push(request, now_ns, costs)) return false;
  order_->pushed(queue_, *request);
  return true;
}

request::Request* ContinuousBatching::pop() noexcept {
  return next_ < selected_.size() ? selected_[next_++] : BatchPolicy::pop();
}

uint32_t ContinuousBatching::num_waiting() const noexcept {
  return queue_.num_requests() + static_cast<uint32_t>(selected_.size() - next_);
}

void ContinuousBatching::choose(const ExecutorState& state, Choice& choice) noexcept {
  choice.clear();
  if (next_ == selected_.size()) {
    selected_.clear();
    next_ = 0;
    order_->select(queue_, limits_, selected_);
  }
  for (; next_ < selected_.size(); ++next_) {
    request::Request* request = selected_[next_];
    if (deadline_passed(*request, state.now_ns)) {
      choice.refused.push_back({request, DeadlineMiss::kPassed});
      continue;
    }
    if (state.capacity != nullptr && !state.capacity->reserve(*request)) return;
    choice.batch.push_back(request);
  }
}

}  // namespace itif::sched
