// itif-bench slab: GSLICE's Figures 12c and 14 on this device. A group with a latency objective
// under each control of its batches: slab, Clipper's aimd, and fixed batches of all that waits.
//
// - By objective: answers/s, p99 and late answers. As many requests are in flight as the group can
//   answer in four fifths of its objective, so that answers are late if batches are too small (too
//   few answers/s) or too large (a request waits for one batch and rides in the next).
// - Convergence: the objective rises and falls, and a group that shared the device leaves. From
//   that step to the end of the first of three batches in a row whose sizes are within a tenth, or
//   one request, of the mean size at last. A size that is only passed does not count.
#include <fmt/format.h>

#include <cmath>

#include "benches.h"
#include "workload/gslice_models.h"

namespace itif::bench {
namespace {

constexpr uint32_t kObjectivesMs[] = {25, 50, 100, 200};
constexpr uint32_t kQuickObjectivesMs[] = {25};
constexpr double kPartInFlight = 0.8;  // of the objective
constexpr uint32_t kSlabTokens = 16384, kSlabRequests = 256;
constexpr uint32_t kSteps = 3;  // of each kind
constexpr sched::BatchControlKind kControls[] = {sched::BatchControlKind::kSlab,
                                                 sched::BatchControlKind::kAimd,
                                                 sched::BatchControlKind::kFixed};

// The paper's convergence times: below these for slab, about these for Clipper.
struct StatedConvergence {
  uint32_t slo_ms;
  double slab_ms, aimd_ms;
};
constexpr StatedConvergence kStatedConvergences[] = {{50, 300, 3500}, {100, 500, 10'000}};
constexpr StatedConvergence kQuickConvergences[] = {{25, 300, 3500}};

constexpr uint32_t kBatchesInARow = 3;

const char* name_of(sched::BatchControlKind control) {
  return sched::kBatchControlNames[static_cast<size_t>(control)].data();
}

struct SlabBed {
  const BenchOptions& options;
  device::Device& device;
  const std::string& dtype;
  ServedModels& models;
  const ServedModel& model;
  double peak_per_s;  // answers with large batches

  Batching batching(sched::BatchControlKind control) const {
    return {.control = control, .max_requests = kSlabRequests, .max_tokens = kSlabTokens};
  }
  uint32_t in_flight(uint64_t slo_ns) const {
    const double requests = kPartInFlight * peak_per_s * static_cast<double>(slo_ns) / 1e9;
    return static_cast<uint32_t>(std::clamp(std::round(requests), 2.0, 2.0 * kSlabRequests));
  }
};

Result<GroupResult> run_slab(const SlabBed& bed, sched::BatchControlKind control,
                             const LoadOptions& load) {
  ITIF_ASSIGN(const auto groups,
              ServedGroups::make(bed.options, bed.device, bed.dtype, Sharing::kNone));
  ITIF_ASSIGN(const size_t group, groups->add(bed.model, bed.batching(control), load));
  groups->begin(group);
  const double seconds = bed.options.run_seconds();
  ITIF_ASSIGN(const auto results, measure_groups(*groups, {bed.model.name}, seconds / 2, seconds));
  return results.front();
}

Status by_objective(const SlabBed& bed, uint32_t slo_ms, Report& report) {
  const std::string name = fmt::format("objective, {} ms, {}", slo_ms, bed.dtype);
  if (!bed.options.wants(name)) return {};
  const uint64_t slo_ns = slo_ms * 1'000'000ull;
  Samples slab, aimd;
  for (const sched::BatchControlKind control : kControls) {
    ITIF_ASSIGN(const GroupResult result,
                run_slab(bed, control, {.in_flight = bed.in_flight(slo_ns), .slo_ns = slo_ns}));
    const auto add = [&](double value, const char* unit, double spread = 0) {
      report.add(
          {.name = name, .mode = name_of(control), .value = value, .unit = unit, .spread = spread});
    };
    add(result.per_s.median(), "answers/s", result.per_s.spread());
    add(result.p50_ms, "p50 ms");
    add(result.p99_ms, "p99 ms");
    add(result.execute_ms, "batch ms");
    add(result.late_percent, "% late");
    if (control == sched::BatchControlKind::kSlab) slab = result.per_s;
    if (control == sched::BatchControlKind::kAimd) aimd = result.per_s;
  }
  report.add({.name = name,
              .mode = "slab / aimd",
              .value = paired_ratios(slab, aimd).median(),
              .unit = "times"});
  return {};
}

// From `from_ns` to the end of the first batch of about the last size before `until_ns`, in ms.
double convergence_ms(const std::vector<BatchSeen>& batches, uint64_t from_ns, uint64_t until_ns) {
  const uint64_t last_half_ns = from_ns + (until_ns - from_ns) / 2;
  double sum = 0, count = 0;
  for (const BatchSeen& batch : batches)
    if (batch.begun_ns >= last_half_ns && batch.done_ns <= until_ns) {
      sum += batch.num_requests;
      ++count;
    }
  const double at_last = count > 0 ? sum / count : 0;
  uint32_t num_in_a_row = 0;
  uint64_t first_done_ns = until_ns;
  for (const BatchSeen& batch : batches) {
    if (count == 0 || batch.begun_ns < from_ns || batch.done_ns > until_ns) continue;
    const bool is_there = std::abs(batch.num_requests - at_last) <= std::max(1.0, at_last / 10);
    num_in_a_row = is_there ? num_in_a_row + 1 : 0;
    if (num_in_a_row == 1) first_done_ns = batch.done_ns;
    if (num_in_a_row == kBatchesInARow) return static_cast<double>(first_done_ns - from_ns) / 1e6;
  }
  return static_cast<double>(until_ns - from_ns) / 1e6;
}

struct Convergence {
  Samples rise, fall;
  std::vector<TimeLine::Interval> intervals;
};

// The objective rises from `low_ns` to `high_ns` and falls again, kSteps times.
Result<Convergence> step_objective(const SlabBed& bed, sched::BatchControlKind control,
                                   uint64_t low_ns, uint64_t high_ns, double interval_s) {
  ITIF_ASSIGN(const auto groups,
              ServedGroups::make(bed.options, bed.device, bed.dtype, Sharing::kNone));
  ITIF_ASSIGN(const size_t group,
              groups->add(bed.model, bed.batching(control),
                          {.in_flight = bed.in_flight(high_ns), .slo_ns = low_ns}));
  const auto run_ns = static_cast<uint64_t>(bed.options.run_seconds() * 1e9);
  groups->begin(group);
  ITIF_TRY(groups->warm_up(run_ns / 2));
  groups->draw_time_lines(static_cast<uint64_t>(interval_s * 1e9));
  Convergence all;
  const auto step = [&](uint64_t slo_ns, uint64_t ns) {
    const uint64_t from_ns = kSystemClock.now_ns();
    groups->set_objective(group, slo_ns);
    groups->run_for(ns);
    return convergence_ms(groups->load(group).batches(), from_ns, kSystemClock.now_ns());
  };
  for (uint32_t i = 0; i < kSteps; ++i) {
    all.rise.add(step(high_ns, run_ns));
    all.fall.add(step(low_ns, run_ns / 2));
  }
  ITIF_TRY(groups->check());
  all.intervals = groups->load(group).intervals();
  return all;
}

// From the end of another group, with which the group shared the device in equal parts.
Result<double> company_leaves(const SlabBed& bed, sched::BatchControlKind control,
                              uint64_t slo_ns) {
  ITIF_ASSIGN(const auto groups,
              ServedGroups::make(bed.options, bed.device, bed.dtype, Sharing::kEqual));
  ITIF_ASSIGN(const ServedModel* other,
              bed.models.get(kResNet.name(bed.options), bed.options, bed.device, bed.dtype));
  ITIF_TRY(groups->add(bed.model, bed.batching(control),
                       {.in_flight = bed.in_flight(slo_ns), .slo_ns = slo_ns}));
  ITIF_TRY(groups->add(*other, {}, {.in_flight = 4, .slo_ns = objective_of(other->alone_ns)}));
  const auto run_ns = static_cast<uint64_t>(bed.options.run_seconds() * 1e9);
  for (const size_t group : {0, 1}) groups->begin(group);
  ITIF_TRY(groups->warm_up(run_ns));
  groups->end(1);
  const uint64_t from_ns = kSystemClock.now_ns();
  groups->run_for(run_ns);
  ITIF_TRY(groups->check());
  return convergence_ms(groups->load(0).batches(), from_ns, kSystemClock.now_ns());
}

Status converge(const SlabBed& bed, const StatedConvergence& stated, Report& report) {
  const std::string what = fmt::format("convergence, {} ms", stated.slo_ms);
  if (!bed.options.wants(what)) return {};
  const uint64_t high_ns = stated.slo_ms * 1'000'000ull;
  // Batches of one request, or a quarter of the larger ones.
  const uint64_t low_ns = std::min(3 * bed.model.alone_ns, high_ns / 4);
  const double interval_s = bed.options.run_seconds() / 40;
  TimeLine line = {
      .name = fmt::format("figure-12c-{}ms", stated.slo_ms),
      .title = fmt::format("Figure 12c: batches while the objective steps between {:.1f} and {} ms",
                           static_cast<double>(low_ns) / 1e6, stated.slo_ms),
      .interval_s = interval_s};
  for (const auto control : {sched::BatchControlKind::kSlab, sched::BatchControlKind::kAimd}) {
    ITIF_ASSIGN(Convergence seen, step_objective(bed, control, low_ns, high_ns, interval_s));
    ITIF_ASSIGN(const double leaves_ms, company_leaves(bed, control, high_ns));
    const auto add = [&](const char* step, double value, double spread,
                         std::optional<double> paper) {
      report.add({.name = fmt::format("{}, {}, {}", what, step, bed.dtype),
                  .mode = name_of(control),
                  .value = value,
                  .unit = "ms",
                  .spread = spread,
                  .paper = paper});
    };
    add("the objective rises", seen.rise.median(), seen.rise.spread(),
        control == sched::BatchControlKind::kSlab ? stated.slab_ms : stated.aimd_ms);
    add("the objective falls", seen.fall.median(), seen.fall.spread(), {});
    add("the other group leaves", leaves_ms, 0, {});
    line.series.push_back({.name = name_of(control), .intervals = std::move(seen.intervals)});
    // The share of the device and arrivals do not matter here.
    for (TimeLine::Interval& interval : line.series.back().intervals)
      interval.share_percent = interval.sent_per_s = 0;
  }
  report.add(std::move(line));
  return {};
}

Status run_slab_bench(const BenchOptions& options, device::Device& device, const std::string& dtype,
                      Report& report) {
  ITIF_ASSIGN(ServedModels models, ServedModels::make(kGsliceTokens));
  // The lightest model whose batches are still limited by the objectives.
  ITIF_ASSIGN(const ServedModel* model, models.get(kAlexnet.name(options), options, device, dtype));
  SlabBed bed{options, device, dtype, models, *model, 0};
  ITIF_ASSIGN(const GroupResult peak,
              run_slab(bed, sched::BatchControlKind::kFixed, {.in_flight = 64}));
  bed.peak_per_s = peak.per_s.median();
  report.note(fmt::format(
      "{}: {}, {} tokens: a request alone takes {:.2f} ms; with large batches {:.0f} answers/s",
      dtype, model->name, kGsliceTokens, static_cast<double>(model->alone_ns) / 1e6,
      bed.peak_per_s));
  report.note(
      "the paper states 2 to 50 % more answers/s for slab than for Clipper's aimd, and that slab "
      "converges within 300 ms at 50 ms and 500 ms at 100 ms, where Clipper takes 3.5 s and more "
      "than 10 s");
  for (const uint32_t slo_ms : options.quick ? std::span<const uint32_t>(kQuickObjectivesMs)
                                             : std::span<const uint32_t>(kObjectivesMs))
    ITIF_TRY(by_objective(bed, slo_ms, report));
  for (const StatedConvergence& stated :
       options.quick ? std::span<const StatedConvergence>(kQuickConvergences)
                     : std::span<const StatedConvergence>(kStatedConvergences))
    ITIF_TRY(converge(bed, stated, report));
  return {};
}

}  // namespace

Status bench_slab(const BenchOptions& options, Report& report) {
  return on_best_type(options, report, [&](device::Device& device, const std::string& dtype) {
    return run_slab_bench(options, device, dtype, report);
  });
}

}  // namespace itif::bench
