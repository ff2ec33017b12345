#include "sched/dynamic_batching.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "sched/row_fill.h"

namespace itif::sched {
namespace {

uint32_t tokens_of(const std::vector<request::Request*>& batch) {
  uint32_t tokens = 0;
  for (const request::Request* request : batch) tokens += request->num_tokens;
  return tokens;
}

}  // namespace

DynamicBatching::DynamicBatching(std::unique_ptr<QueueOrder> order, const PolicyOptions& options)
    : BatchPolicy(options.queue),
      order_(std::move(order)),
      limits_(options.limits),
      max_wait_ns_(order_->knows_backlog() ? 0 : options.max_wait_ns),
      objectives_(options.queue.max_slots),
      control_(make_batch_control(options.batch_control, options.limits.max_tokens)),
      urgent_(options.queue.max_slots),
      late_(options.limits.max_requests) {}

void DynamicBatching::entered(request::Request& request, uint64_t now_ns,
                              const BatchCosts& costs) noexcept {
  order_->pushed(queue_, request);
  const double alone_ns = costs.undisturbed.batch_ns(request.num_tokens);
  objectives_.pushed(request, now_ns, static_cast<uint64_t>(alone_ns));
}

void DynamicBatching::choose(const ExecutorState& state, Choice& choice) noexcept {
  choice.clear();
  refuse_overdue(state.now_ns, max_wait_ns_, choice.refused);
  refuse_infeasible(state, choice.refused);
  const Objectives::Tightest tightest = objectives_.set(queue_, state.now_ns, order_->isolates());
  choice.slo_ns = tightest.slo_ns;
  const BatchLimits limits = fill(state, tightest, choice);
  const bool has_left_any = leave_late(state, limits, choice);
  refuse_behind(state, choice);
  // Others take the room of the requests that left. Slots keep their size, so they are filled once.
  if (!has_left_any || choice.slot_tokens > 0) return;
  order_->select(queue_, state, limits, choice);
  leave_late(state, limits, choice);
  refuse_behind(state, choice);
}

request::Request* DynamicBatching::pop() noexcept {
  request::Request* request = BatchPolicy::pop();
  if (request != nullptr) order_->removed(*request);
  return request;
}

void DynamicBatching::remove(request::Request* request) noexcept {
  order_->removed(*request);
  BatchPolicy::remove(request);
}

BatchLimits DynamicBatching::fill(const ExecutorState& state, const Objectives::Tightest& tightest,
                                  Choice& choice) noexcept {
  std::vector<request::Request*>& batch = choice.batch;
  BatchLimits limits = limits_;
  // Never splits two batches in a row: the requests that can wait would wait for longer than
  // LateRequests::kMaxSplitCost allows.
  limits.late_run_first = !std::exchange(late_ran_first_, false) &&
                          2 * queue_.num_with_deadline() <= queue_.num_requests();
  if (order_->fills_rows()) limits.rows = state.rows;
  choice.has_rows = limits.rows.have_length();
  limits.max_tokens = control_->tokens(tightest.slo_ns);
  if (tightest.least_batch_ns != 0)
    limits.max_tokens = std::clamp(state.costs.undisturbed.tokens_within(tightest.least_batch_ns),
                                   limits.max_tokens, limits_.max_tokens);
  const uint32_t least_tokens = efficient_tokens(state.costs.undisturbed, tightest);
  if (tightest.batch_ns != 0)
    limits.max_tokens =
        std::min(limits.max_tokens,
                 std::max(least_tokens, state.costs.undisturbed.tokens_within(tightest.batch_ns)));
  const uint64_t time_ns = urgent_.select(queue_, objectives_, limits, state.now_ns, batch);
  for (const request::Request* urgent : batch) {
    order_->removed(*urgent);
    order_->charge(*urgent);
  }
  const bool has_urgent = !batch.empty();
  if (has_urgent)
    limits.max_tokens = std::min(limits.max_tokens,
                                 std::max(small_batches_.allowed(state.now_ns) ? 0 : least_tokens,
                                          state.costs.expected.tokens_within(time_ns)));
  if (!RowFill(limits, batch).full()) order_->select(queue_, state, limits, choice);
  if (has_urgent && queue_.num_requests() > 0)
    small_batches_.charge(tokens_of(batch), least_tokens, state.costs.undisturbed);
  urgent_.chosen(queue_, batch);
  return limits;
}

uint32_t DynamicBatching::efficient_tokens(const BatchCost& cost,
                                           const Objectives::Tightest& tightest) const noexcept {
  if (tightest.batch_ns == 0 || tightest.slo_ns != 0) return 0;
  return std::min(cost.efficient_tokens(limits_.max_tokens),
                  cost.tokens_within(tightest.efficient_ns));
}

bool DynamicBatching::leave_late(const ExecutorState& state, const BatchLimits& limits,
                                 Choice& choice) noexcept {
  const size_t num_refused = std::erase_if(choice.batch, [&](request::Request* request) {
    const std::optional<DeadlineMiss> miss = deadline_miss(*request, state);
    if (miss) choice.refused.push_back({request, *miss});
    return miss.has_value();
  });
  const OtherRequests others = queue_.num_requests() == 0 ? OtherRequests::kNone
                               : limits.late_run_first    ? OtherRequests::kCanWait
                                                          : OtherRequests::kMayBeLate;
  const auto [late, runs_next] = late_.find(choice.batch, state, others);
  late_ran_first_ |= runs_next && others == OtherRequests::kCanWait;
  size_t next = 0;  // of `late`, which is in the batch's order
  std::erase_if(choice.batch, [&](const request::Request* request) {
    const bool leaves = next < late.size() && late[next] == request;
    next += leaves;
    return leaves;
  });
  // Backwards, since each goes to the head of its tenant's queue.
  for (auto request = late.rbegin(); request != late.rend(); ++request) {
    queue_.put_back(*request);
    order_->put_back(queue_, **request);
  }
  if (num_refused + late.size() > 0) order_->close_gaps(limits, choice);
  return !runs_next && num_refused + late.size() > 0 && queue_.num_requests() > late.size();
}

}  // namespace itif::sched
