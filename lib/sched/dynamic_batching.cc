#include "sched/dynamic_batching.h"

#include <algorithm>
#include <utility>

namespace itif::sched {

DynamicBatching::DynamicBatching(std::unique_ptr<QueueOrder> order, const PolicyOptions& options)
    : BatchPolicy(options.queue),
      order_(std::move(order)),
      limits_(options.limits),
      continuous_(options.continuous),
      bound_(options.limits.max_tokens),
      urgent_(options.queue.max_slots) {}

void DynamicBatching::choose(const ExecutorState& state, Choice& choice) noexcept {
  choice.clear();
  if (continuous_) return order_->select(queue_, limits_, choice.batch);
  const Objectives objectives = set_objectives(queue_, state.now_ns, order_->isolates());
  choice.slo_ns = objectives.slo_ns;
  fill(state, objectives, choice.batch);
  refuse_late(state, choice);
}

void DynamicBatching::fill(const ExecutorState& state, const Objectives& objectives,
                           std::vector<request::Request*>& batch) noexcept {
  BatchLimits limits = limits_;
  limits.max_tokens = bound_.tokens(objectives.slo_ns);
  if (objectives.batch_ns != 0)
    limits.max_tokens =
        std::min(limits.max_tokens, state.costs.undisturbed.tokens_within(objectives.batch_ns));
  const uint64_t time_ns = urgent_.select(queue_, limits, state.now_ns, batch);
  if (!batch.empty())
    limits.max_tokens = std::min(limits.max_tokens, state.costs.expected.tokens_within(time_ns));
  if (batch.empty() || room(limits, batch) > 0) order_->select(queue_, limits, batch);
  urgent_.chosen(queue_, batch);
}

void DynamicBatching::refuse_late(const ExecutorState& state, Choice& choice) noexcept {
  const auto start_ns = static_cast<double>(std::max(state.now_ns, state.start_ns));
  std::erase_if(choice.batch, [&](request::Request* request) {
    if (request->deadline_ns == 0) return false;
    if (request->deadline_ns <= state.now_ns) {
      choice.refused.push_back({request, DeadlineMiss::kPassed});
      return true;
    }
    const double left_ns = static_cast<double>(request->deadline_ns) - start_ns;
    if (left_ns >= state.costs.expected.batch_ns(request->num_tokens)) return false;
    choice.refused.push_back({request, DeadlineMiss::kTooSoon});
    return true;
  });
}

void DynamicBatching::ran(const BatchRun& run) noexcept {
  bound_.ran(run.num_tokens, run.execute_ns, run.slo_ns);
}

}  // namespace itif::sched
