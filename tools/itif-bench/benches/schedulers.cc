// itif-bench schedulers: time of a batch policy's decision with 10 to 100,000 requests waiting,
// against 2 % of the time of the batch that it chooses (TCB, Figure 16, which has 2 % at 400).
//
// Lengths as in TCB's section 6.2: 3 to 100, mean 20, variance 20. Batches have up to 64 requests,
// in one row of 64 mean lengths. The batch is the policy's choice at 400 waiting, run on BERT-base
// as one tenant's. Chosen and refused requests are queued again, untimed. The CPU caches are swept
// before each decision, because in service the previous batch does that.
//
// The cases named "overloaded" have all that a decision costs in service: rows of 100 tokens, costs
// and deadlines. Half of these cannot be met, as at twice the capacity. A quarter is too soon for a
// batch of the request alone, and a quarter for a full batch. So a decision refuses about as many
// requests as it chooses. In the other cases no cost is known and all deadlines are met.
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
constexpr sched::BatchRows kDecisionRows = {.number = kDecisionTokens / 100, .tokens = 100};
// The first decision refuses half of all that wait, and each one after it half as many, until as
// many are refused as chosen.
constexpr uint32_t kUntimedDecisions = 32;
constexpr uint64_t kSecondNs = 1'000'000'000;

// Costs of a batch: a tenth of that of a full one, and a part per token.
class DecisionCost final : public sched::BatchCost {
 public:
  explicit DecisionCost(double full_ns)
      : full_ns_(full_ns), token_ns_(0.9 * full_ns / kDecisionTokens) {}

  double full_ns() const { return full_ns_; }
  double batch_ns(uint32_t num_tokens) const noexcept override {
    return 0.1 * full_ns_ + token_ns_ * num_tokens;
  }
  uint32_t tokens_within(uint64_t ns) const noexcept override {
    const double tokens = (static_cast<double>(ns) - 0.1 * full_ns_) / token_ns_;
    return static_cast<uint32_t>(std::clamp(tokens, 0.0, 1e9));
  }

 private:
  const double full_ns_;
  const double token_ns_;
};

// A policy in which num_waiting requests wait.
class Waiting {
 public:
  // `cost`: outlives the object; nullptr: no cost is known, and there are no rows of fixed length.
  static Result<std::unique_ptr<Waiting>> make(std::string_view scheduler, uint32_t num_waiting,
                                               const DecisionCost* cost = nullptr) {
    auto waiting = std::unique_ptr<Waiting>(new Waiting(cost));
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
    for (uint32_t i = 0; cost != nullptr && i < kUntimedDecisions; ++i) {
      waiting->choose();
      if (!waiting->push_again()) return fail(Code::kInternal, "a wrong batch");
    }
    return waiting;
  }
  // Chooses a batch and returns the time, ns.
  double choose() {
    const uint64_t before_ns = clock_.now_ns();
    policy_->choose(state_, choice_);
    return static_cast<double>(clock_.now_ns() - before_ns);
  }
  const std::vector<request::Request*>& batch() const { return choice_.batch; }
  size_t num_refused() const { return choice_.refused.size(); }
  // Queues the requests of the choice again, as new ones. Returns false if the choice was wrong.
  bool push_again() {
    uint32_t num_tokens = 0;
    for (const request::Request* request : choice_.batch) num_tokens += request->num_tokens;
    if (num_tokens > kDecisionTokens) return false;
    if (cost_ == nullptr && (choice_.batch.empty() || !choice_.refused.empty())) return false;
    return std::ranges::all_of(choice_.batch, [&](auto* request) { return push(*request); }) &&
           std::ranges::all_of(choice_.refused,
                               [&](auto& refused) { return push(*refused.request); });
  }

 private:
  explicit Waiting(const DecisionCost* cost)
      : cost_(cost),
        state_(cost == nullptr
                   ? sched::ExecutorState{}
                   : sched::ExecutorState{
                         .now_ns = kSecondNs, .costs = {*cost, *cost}, .rows = kDecisionRows}) {}

  bool push(request::Request& request) {
    const double length = std::round(20 + std::sqrt(20) * random_.normal());
    request.num_tokens = static_cast<uint32_t>(std::clamp(length, 3.0, 100.0));
    request.deadline_ns = deadline_ns(request.num_tokens);
    request.slot = static_cast<uint32_t>(random_.below(kDecisionTenants));
    request.settings.weight = 1 + request.slot;
    request.complete_ns = ++num_pushed_;
    return policy_->push(&request, state_.now_ns, state_.costs);
  }
  uint64_t deadline_ns(uint32_t num_tokens) {
    if (cost_ == nullptr) return 1 + random_.below(kSecondNs);
    const double alone_ns = cost_->batch_ns(num_tokens), full_ns = cost_->full_ns();
    const uint64_t quarter = random_.below(4);
    const double left_ns = quarter == 0   ? random_.uniform() * alone_ns
                           : quarter == 1 ? alone_ns + random_.uniform() * full_ns
                                          : (2 + 10 * random_.uniform()) * full_ns;
    return kSecondNs + 1 + static_cast<uint64_t>(left_ns);
  }

  const DecisionCost* const cost_;
  const sched::ExecutorState state_;
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

struct DecisionCase {
  uint32_t num_waiting;
  bool is_overloaded;
};

std::vector<DecisionCase> decision_cases() {
  std::vector<DecisionCase> cases;
  for (const bool is_overloaded : {false, true})
    for (const uint32_t num_waiting : kWaiting) cases.push_back({num_waiting, is_overloaded});
  return cases;
}

std::string case_name(const std::string& dtype, const DecisionCase& c) {
  return fmt::format("{}, {} waiting{}", dtype, c.num_waiting,
                     c.is_overloaded ? ", overloaded" : "");
}

Status run_decisions(const BenchOptions& options, device::Device& device, const std::string& dtype,
                     Report& report) {
  std::vector<std::string> schedulers(sched::kPolicyNames.begin(), sched::kPolicyNames.end());
  schedulers.emplace_back("das:weighted,fair");
  std::vector<std::string> names = schedulers;
  for (const DecisionCase& c : decision_cases()) names.push_back(case_name(dtype, c));
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
    const DecisionCost cost(batch_ns);
    double shares[2] = {};  // by is_overloaded
    for (const DecisionCase& c : decision_cases()) {
      const std::string name = case_name(dtype, c);
      if (!options.wants_any({name, scheduler})) continue;
      ITIF_ASSIGN(const auto waiting,
                  Waiting::make(scheduler, c.num_waiting, c.is_overloaded ? &cost : nullptr));
      Samples samples;
      size_t num_chosen = 0, num_refused = 0;
      for (uint32_t i = 0; i < samples_each; ++i) {
        for (size_t at = 0; at < swept.size(); at += 64) ++swept[at];
        samples.add(waiting->choose());
        num_chosen += waiting->batch().size();
        num_refused += waiting->num_refused();
        if (!waiting->push_again())
          return fail(Code::kInternal, fmt::format("{} chose a wrong batch", scheduler));
      }
      if (c.is_overloaded && (num_refused < num_chosen / 4 || num_chosen < num_refused / 4))
        return fail(Code::kInternal, fmt::format("{} chose {} requests and refused {}", scheduler,
                                                 num_chosen, num_refused));
      const double limit_ns = kDecisionShare * batch_ns;
      report.add({.name = name,
                  .mode = scheduler,
                  .value = samples.median() * 1e-3,
                  .unit = "us",
                  .spread = samples.spread(),
                  .limit = limit_ns * 1e-3,
                  .ratio = samples.median() / limit_ns});
      if (c.num_waiting == kPaperWaiting) shares[c.is_overloaded] = samples.median() / batch_ns;
    }
    report.note(fmt::format(
        "  {}: its batch of {} requests takes {:.1f} ms, its decision {:.4f} % of that at {} "
        "waiting, {:.4f} % overloaded",
        scheduler, paper->batch().size(), batch_ns * 1e-6, 100 * shares[0], kPaperWaiting,
        100 * shares[1]));
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
