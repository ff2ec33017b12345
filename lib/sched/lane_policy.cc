#include "sched/lane_policy.h"

#include <algorithm>
#include <utility>

namespace itif::sched {

LanePolicy::LanePolicy(std::unique_ptr<LaneOrder> order, const PolicyOptions& options)
    : BatchPolicy(options.queue),
      order_(std::move(order)),
      limits_(options.limits),
      continuous_(options.continuous),
      bound_(options.limits.max_tokens),
      urgent_(options.queue.max_slots) {}

void LanePolicy::choose(const Turn& turn, Choice& choice) noexcept {
  choice.clear();
  if (continuous_) return order_->select(queue_, limits_, choice.batch);
  const Objectives objectives = set_objectives(queue_, turn.now_ns, order_->isolates());
  choice.slo_ns = objectives.slo_ns;
  fill(turn, objectives, choice.batch);
  refuse_late(turn, choice);
}

void LanePolicy::fill(const Turn& turn, const Objectives& objectives,
                      std::vector<request::Request*>& batch) noexcept {
  BatchLimits limits = limits_;
  limits.max_tokens = bound_.tokens(objectives.slo_ns);
  if (objectives.batch_ns != 0)
    limits.max_tokens =
        std::min(limits.max_tokens, turn.cost.undisturbed.tokens_within(objectives.batch_ns));
  const uint64_t time_ns = urgent_.select(queue_, limits, turn.now_ns, batch);
  if (!batch.empty())
    limits.max_tokens = std::min(limits.max_tokens, turn.cost.expected.tokens_within(time_ns));
  if (batch.empty() || room(limits, batch) > 0) order_->select(queue_, limits, batch);
  urgent_.chosen(queue_, batch);
}

void LanePolicy::refuse_late(const Turn& turn, Choice& choice) noexcept {
  const auto start_ns = static_cast<double>(std::max(turn.now_ns, turn.start_ns));
  std::erase_if(choice.batch, [&](request::Request* request) {
    if (request->deadline_ns == 0) return false;
    if (request->deadline_ns <= turn.now_ns) {
      choice.refused.push_back({request, DeadlineMiss::kPassed});
      return true;
    }
    const double left_ns = static_cast<double>(request->deadline_ns) - start_ns;
    if (left_ns >= turn.cost.expected.batch_ns(request->num_tokens)) return false;
    choice.refused.push_back({request, DeadlineMiss::kTooSoon});
    return true;
  });
}

void LanePolicy::ran(const BatchRun& run) noexcept {
  bound_.ran(run.num_tokens, run.execute_ns, run.slo_ns);
}

}  // namespace itif::sched
