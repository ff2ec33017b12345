// itif-bench plan: planning time of a batch of 64 requests by planner, against 2 % of the batch's
// run time.
//
// The run time is that of BERT-base over the same lengths, all of one tenant and without padding: a
// lower bound for any plan. The CPU caches are swept before each plan, because in service the
// previous batch does that.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"
#include "benches.h"
#include "plan/make_planner.h"
#include "plan/verify.h"
#include "runtime/cost/pass_pricer.h"
#include "workload/devices.h"
#include "workload/encoder_costs.h"

namespace itif::bench {
namespace {

constexpr uint32_t kPlannedRequests = 64;
constexpr double kAllowedShare = 0.02;
constexpr size_t kSweptBytes = size_t{64} << 20;
constexpr plan::PlanLimits kLimits{.max_requests = kPlannedRequests,
                                   .max_rows = kPlannedRequests * 128};

struct PlanCase {
  const char* name;
  uint32_t tenants, shortest, longest;
};
constexpr PlanCase kCases[] = {
    {"1 tenant, lengths 1-128", 1, 1, 128},    {"4 tenants, lengths 1-128", 4, 1, 128},
    {"4 tenants, lengths 33-128", 4, 33, 128}, {"64 tenants, lengths 1-128", 64, 1, 128},
    {"4 tenants, lengths 1-8", 4, 1, 8},
};
constexpr const char* kPlanners[] = {"packed", "naive", "turbo", "itif", "joint", "auto"};

// Adds costs of ranges to tables without: auto's time to read them does not depend on the costs.
plan::CostTables with_ranges(plan::CostTables tables) {
  tables.range_counts = {1, 2, 3, 4, 8, 16};
  tables.range_rows = {7, 15, 31, 63, 127, 255, 511, 1023};
  const std::vector<double> costs(tables.range_counts.size() * tables.range_rows.size(), 1e5);
  for (const auto& [n, k] : {std::pair{2304u, 768u}, {768u, 768u}, {3072u, 768u}, {768u, 3072u}})
    tables.shared_gemms.push_back({n, k, costs, costs, 12});
  return tables;
}

std::vector<plan::Item> make_items(const PlanCase& c) {
  Random random(c.tenants);
  std::vector<plan::Item> items(kPlannedRequests);
  for (uint32_t i = 0; i < kPlannedRequests; ++i)
    items[i] = {i % c.tenants,
                c.shortest + static_cast<uint32_t>(random.below(c.longest - c.shortest + 1))};
  return items;
}

// Sweeps the caches before each plan, untimed.
class SweptTimer {
 public:
  Samples time(plan::Planner& planner, std::span<const plan::Item> items, plan::Plan& plan,
               uint32_t samples) {
    Samples result;
    for (uint32_t i = 0; i < samples; ++i) {
      for (size_t at = 0; at < swept_.size(); at += 64) ++swept_[at];
      const uint64_t before_ns = clock_.now_ns();
      planner.plan(items, plan);
      result.add(static_cast<double>(clock_.now_ns() - before_ns));
    }
    return result;
  }

 private:
  const SystemClock clock_;
  std::vector<uint8_t> swept_ = std::vector<uint8_t>(kSweptBytes);
};

Encoder::Batch one_tenant(std::span<const plan::Item> items, uint32_t vocab) {
  EncoderCase c{.name = {}, .lengths = {{}}};
  for (const plan::Item& item : items) c.lengths[0].push_back(item.num_tokens);
  return Encoder::make_batch(c, vocab);
}

std::string shape(const char* name, const plan::Plan& plan) {
  const double padding =
      1 - static_cast<double>(plan.num_tokens) / static_cast<double>(plan.num_rows);
  return fmt::format("{} {} calls, {:.0f} % padding", name, plan.calls.size(), 100 * padding);
}

Status plan_dtype(const BenchOptions& options, device::Device& device, const std::string& dtype,
                  Report& report) {
  std::vector<std::string> names;
  for (const PlanCase& c : kCases)
    names.insert(names.end(), {fmt::format("{}, {}", dtype, c.name), c.name});
  if (!options.wants_any(names)) return {};
  const model::BackboneSpec spec = bert_base();
  const uint32_t forwards = options.quick ? 1 : 5;
  ITIF_ASSIGN(const plan::CostTables tables, measure_encoder_costs(device, spec, forwards));
  const auto pricer = std::make_shared<runtime::PassPricer>(
      device.info(), kLimits, std::make_shared<const plan::CostTables>(with_ranges(tables)));
  ITIF_ASSIGN(const auto encoder, Encoder::make(device, spec, 1, kLimits.max_rows));

  SweptTimer timer;
  for (const PlanCase& c : kCases) {
    const std::string name = fmt::format("{}, {}", dtype, c.name);
    if (!options.wants_any({name, c.name})) continue;
    const std::vector<plan::Item> items = make_items(c);
    ITIF_ASSIGN(const double whole_ns,
                forward_ns(*encoder, one_tenant(items, spec.vocab), forwards));
    const double limit_ns = kAllowedShare * whole_ns;
    std::vector<std::string> shapes;
    double naive_cost_ns = 0, slowest_ns = 0;
    for (const char* planner_name : kPlanners) {
      ITIF_ASSIGN(const auto planner,
                  plan::make_planner(planner_name,
                                     {.limits = kLimits, .tables = &tables, .pricer = pricer}));
      plan::Plan plan;
      plan.reserve(kPlannedRequests);
      planner->plan(items, plan);
      ITIF_TRY(plan::verify(plan, items, kLimits));
      if (std::string_view(planner_name) == "naive") naive_cost_ns = plan.cost_ns;
      if (plan.cost_ns > naive_cost_ns * (1 + 1e-9))
        return fail(Code::kInternal,
                    fmt::format("{}: {} costs {} ns by the tables, more than naive's {} ns", name,
                                planner_name, plan.cost_ns, naive_cost_ns));
      const Samples samples = timer.time(*planner, items, plan, options.quick ? 31 : 201);
      report.add({.name = name,
                  .mode = planner_name,
                  .value = samples.median() * 1e-3,
                  .unit = "us",
                  .spread = samples.spread(),
                  .limit = limit_ns * 1e-3,
                  .ratio = samples.median() / limit_ns});
      slowest_ns = std::max(slowest_ns, samples.median());
      shapes.push_back(shape(planner_name, plan));
    }
    report.note(fmt::format("  batch at least {:.1f} ms, planning at most {:.4f} % of it; {}",
                            whole_ns * 1e-6, 100 * slowest_ns / whole_ns, fmt::join(shapes, "; ")));
  }
  return {};
}

}  // namespace

Status bench_plan(const BenchOptions& options, Report& report) {
  return on_each_device(options, report, [&](device::Device& device, const std::string& dtype) {
    return plan_dtype(options, device, dtype, report);
  });
}

}  // namespace itif::bench
