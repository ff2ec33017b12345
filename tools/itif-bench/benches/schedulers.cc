// itif-bench schedulers: time of a batch policy's decision with 10 to 100,000 requests waiting,
// against 2 % of the time of the batch that it chooses (TCB, Figure 16, which has 2 % at 400).
//
// Lengths as in TCB's section 6.2: 3 to 100, mean 20, variance 20. Batches have up to 64 requests,
// in one row of 64 mean lengths. The batch is the policy's choice at 400 waiting, run on BERT-base
// as one tenant's. Chosen requests are queued again, untimed. The CPU caches are swept before each
// decision, because in service the previous batch does that.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/clock.h"
#include "base/random.h"
#include "benches.h"
#include "sched/batch_policy.h"
#include "sched/policy_names.h"
#include "workload/devices.h"
#include "workload/encoder_costs.h"

namespace itif::bench {
namespace {

constexpr uint32_t kDecisionRequests = 64;
constexpr uint32_t kDecisionTokens = kDecisionRequests * 20;
constexpr uint32_t kDecisionTenants = 4;
constexpr uint32_t kPaperWaiting = 400;
constexpr uint32_t kWaiting[] = {10, 100, kPaperWaiting, 1'000, 10'000, 100'000};
constexpr double kDecisionShare = 0.02;
constexpr size_t kDecisionSweptBytes = size_t{64} << 20;

// A policy in which num_waiting requests wait.
class Waiting {
 public:
  static Result<std::unique_ptr<Waiting>> make(std::string_view scheduler, uint32_t num_waiting) {
    auto waiting = std::unique_ptr<Waiting>(new Waiting);
    const sched::PolicyOptions options{
        .limits = {.max_tokens = kDecisionTokens, .max_requests = kDecisionRequests},
        .queue = {.max_requests = 4 * num_waiting + kDecisionTenants,
                  .max_tenant_requests = 2 * num_waiting,
                  .max_slots = kDecisionTenants}};
    ITIF_ASSIGN(waiting->policy_, sched::make_policy(scheduler, options));
    waiting->choice_.reserve(options);
    waiting->requests_.resize(num_waiting);
    for (request::Request& request : waiting->requests_)
      if (!waiting->push(request)) return fail(Code::kInternal, "the queue has no room");
    return waiting;
  }
  // Chooses a batch and returns the time, ns.
  double choose() {
    const uint64_t before_ns = clock_.now_ns();
    policy_->choose({}, choice_);
    return static_cast<double>(clock_.now_ns() - before_ns);
  }
  const std::vector<request::Request*>& batch() const { return choice_.batch; }
  // Queues the chosen requests again, as new ones. Returns false if the choice was wrong.
  bool push_again() {
    uint32_t num_tokens = 0;
    for (const request::Request* request : choice_.batch) num_tokens += request->num_tokens;
    if (choice_.batch.empty() || num_tokens > kDecisionTokens || !choice_.refused.empty())
      return false;
    return std::ranges::all_of(choice_.batch, [&](auto* request) { return push(*request); });
  }

 private:
  bool push(request::Request& request) {
    const double length = std::round(20 + std::sqrt(20) * random_.normal());
    request.num_tokens = static_cast<uint32_t>(std::clamp(length, 3.0, 100.0));
    request.deadline_ns = 1 + random_.below(1'000'000'000);
    request.slot = static_cast<uint32_t>(random_.below(kDecisionTenants));
    request.settings.weight = 1 + request.slot;
    request.complete_ns = ++num_pushed_;
    return policy_->push(&request, 0, {});
  }

  const SystemClock clock_;
  Random random_{19};
  uint64_t num_pushed_ = 0;
  std::unique_ptr<sched::BatchPolicy> policy_;
  sched::Choice choice_;
  std::deque<request::Request> requests_;
};

Encoder::Batch chosen_batch(const Waiting& waiting, uint32_t vocab) {
  EncoderCase c{.name = {}, .lengths = {{}}};
  for (const request::Request* request : waiting.batch())
    c.lengths[0].push_back(request->num_tokens);
  return Encoder::make_batch(c, vocab);
}

Status run_decisions(const BenchOptions& options, device::Device& device, const std::string& dtype,
                     Report& report) {
  std::vector<std::string> schedulers(sched::kPolicyNames.begin(), sched::kPolicyNames.end());
  schedulers.emplace_back("das:weighted,fair");
  std::vector<std::string> names = schedulers;
  for (const uint32_t num_waiting : kWaiting)
    names.push_back(fmt::format("{}, {} waiting", dtype, num_waiting));
  if (!options.wants_any(names)) return {};
  const model::BackboneSpec spec = bert_base();
  const uint32_t forwards = options.quick ? 1 : 5, samples_each = options.quick ? 31 : 201;
  ITIF_ASSIGN(const auto encoder, Encoder::make(device, spec, 1, kDecisionTokens));
  std::vector<uint8_t> swept(kDecisionSweptBytes);
  for (const std::string& scheduler : schedulers) {
    ITIF_ASSIGN(const auto paper, Waiting::make(scheduler, kPaperWaiting));
    paper->choose();
    ITIF_ASSIGN(const double batch_ns,
                forward_ns(*encoder, chosen_batch(*paper, spec.vocab), forwards));
    double share = 0;
    for (const uint32_t num_waiting : kWaiting) {
      const std::string name = fmt::format("{}, {} waiting", dtype, num_waiting);
      if (!options.wants_any({name, scheduler})) continue;
      ITIF_ASSIGN(const auto waiting, Waiting::make(scheduler, num_waiting));
      Samples samples;
      for (uint32_t i = 0; i < samples_each; ++i) {
        for (size_t at = 0; at < swept.size(); at += 64) ++swept[at];
        samples.add(waiting->choose());
        if (!waiting->push_again())
          return fail(Code::kInternal, fmt::format("{} chose a wrong batch", scheduler));
      }
      const double limit_ns = kDecisionShare * batch_ns;
      report.add({.name = name,
                  .mode = scheduler,
                  .value = samples.median() * 1e-3,
                  .unit = "us",
                  .spread = samples.spread(),
                  .limit = limit_ns * 1e-3,
                  .ratio = samples.median() / limit_ns});
      if (num_waiting == kPaperWaiting) share = samples.median() / batch_ns;
    }
    report.note(
        fmt::format("  {}: its batch of {} requests takes {:.1f} ms, its decision {:.4f} % "
                    "of that at {} waiting",
                    scheduler, paper->batch().size(), batch_ns * 1e-6, 100 * share, kPaperWaiting));
  }
  return {};
}

}  // namespace

Status bench_schedulers(const BenchOptions& options, Report& report) {
  return on_each_device(options, report, [&](device::Device& device, const std::string& dtype) {
    return run_decisions(options, device, dtype, report);
  });
}

}  // namespace itif::bench
