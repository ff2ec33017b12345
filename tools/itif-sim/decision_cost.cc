#include "decision_cost.h"

#include <algorithm>
#include <deque>

#include "plan/make_planner.h"
#include "report/timing.h"
#include "sched/batch_policy.h"
#include "sim/workload.h"

namespace itif::sim {
namespace {

constexpr uint32_t kDecisions = 101;
constexpr uint64_t kWorkloadSeed = 16;
constexpr uint64_t kEndlessNs = uint64_t{24} * 3600 * 1'000'000'000;

}  // namespace

Result<double> decision_ns(const Scenario& scenario, uint32_t num_waiting) {
  const config::Batching& batching = scenario.batching;
  const sched::PolicyOptions options{
      .limits = {.max_tokens = batching.max_tokens, .max_requests = batching.max_requests},
      .queue = {
          .max_requests = 4 * num_waiting, .max_tenant_requests = 2 * num_waiting, .max_slots = 1}};
  ITIF_ASSIGN(const auto policy, sched::make_policy(batching.scheduler, options));
  ITIF_ASSIGN(const plan::PlannerText planner, plan::parse_planner(batching.planner));
  sched::ExecutorState state;
  if (const uint32_t tokens = planner.rows.row_tokens; tokens > 0)
    state.rows = {.number = batching.max_tokens / tokens, .tokens = tokens};
  Scenario endless = scenario;
  endless.duration_ns = kEndlessNs;
  ITIF_ASSIGN(Workload workload,
              Workload::make(endless, endless.duration_ns, batching.max_tokens, kWorkloadSeed));
  sched::Choice choice;
  choice.reserve(options);
  uint64_t num_pushed = 0;
  const auto push = [&](request::Request& request) {
    const auto draw = workload.next();
    if (!draw) return false;
    request.num_tokens = draw->num_tokens;
    request.deadline_ns = 1 + draw->deadline_ns;
    request.complete_ns = ++num_pushed;
    return policy->push(&request, 0, {});
  };
  std::deque<request::Request> requests(num_waiting);
  bool is_pushed = std::ranges::all_of(requests, push);
  bench::Samples samples;
  for (uint32_t i = 0; i < kDecisions && is_pushed; ++i) {
    const uint64_t before_ns = bench::kSystemClock.now_ns();
    policy->choose(state, choice);
    samples.add(static_cast<double>(bench::kSystemClock.now_ns() - before_ns));
    is_pushed = !choice.batch.empty() &&
                std::ranges::all_of(choice.batch, [&](auto* request) { return push(*request); });
  }
  if (!is_pushed)
    return fail(Code::kInternal, "the policy chose no batch, or the workload has ended");
  return samples.median();
}

}  // namespace itif::sim
