// itif-bench slab: GSLICE's Figures 12c and 14 on this device. A group with a latency objective
// under each control of its batches: slab, Clipper's aimd, and fixed batches of all that waits.
//
// - By objective: answers/s, p99 and late answers. As many requests are in flight as the group can
//   answer in four fifths of its objective, so that answers are late if batches are too small (too
//   few answers/s) or too large (a request waits for one batch and rides in the next).
// - Convergence: the objective rises and falls, and a group that shared the device leaves; the time
//   from that step is convergence_ms().
#include <fmt/format.h>

#include <cmath>

#include "benches.h"
#include "report/convergence.h"
#include "report/gslice_rows.h"
#include "workload/gslice_models.h"

namespace itif::bench {
namespace {

constexpr uint32_t kObjectivesMs[] = {25, 50, 100, 200};
constexpr uint32_t kQuickObjectivesMs[] = {25};
constexpr uint32_t kSlabTokens = 16384, kSlabRequests = 256;
// Leaves room for the other group's requests.
constexpr uint32_t kMostInFlight = ServedGroups::kMaxInFlight - 64;
constexpr uint32_t kSteps = 3;  // of each kind
constexpr sched::BatchControlKind kControls[] = {sched::BatchControlKind::kSlab,
                                                 sched::BatchControlKind::kAimd,
                                                 sched::BatchControlKind::kFixed};

constexpr uint32_t kConvergencesMs[] = {50, 100};
constexpr uint32_t kQuickConvergencesMs[] = {25};

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
  double wanted_in_flight(uint64_t slo_ns) const {
    return std::round(kPartInFlight * peak_per_s * static_cast<double>(slo_ns) / 1e9);
  }
  uint32_t in_flight(uint64_t slo_ns) const {
    return static_cast<uint32_t>(std::clamp(wanted_in_flight(slo_ns), 2.0, double{kMostInFlight}));
  }
};

// Says so if the group has fewer requests than its objective allows.
void note_clamp(const SlabBed& bed, const std::string& name, uint64_t slo_ns, Report& report) {
  if (bed.wanted_in_flight(slo_ns) <= kMostInFlight) return;
  report.note(fmt::format(
      "{}: {:.0f} requests in flight would take four fifths of the objective, but the bench has at "
      "most {}: the objective may limit no batch, and the controls then cannot differ",
      name, bed.wanted_in_flight(slo_ns), kMostInFlight));
}

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

// Answers per second with the largest batches. A slow device would need seconds for so many
// requests; there, 64 at a time already make batches large enough.
Result<double> find_peak(const SlabBed& bed) {
  constexpr uint32_t kFew = 64, kMany = 2 * kSlabRequests;
  constexpr double kSoonS = 0.1;
  double per_s = 0;
  for (const uint32_t in_flight : {kFew, kMany}) {
    ITIF_ASSIGN(const GroupResult peak,
                run_slab(bed, sched::BatchControlKind::kFixed, {.in_flight = in_flight}));
    per_s = std::max(per_s, peak.per_s.median());
    if (per_s * kSoonS < kMany) break;
  }
  return per_s;
}

std::string objective_case(uint32_t slo_ms, const std::string& dtype) {
  return fmt::format("objective, {} ms, {}", slo_ms, dtype);
}
std::string convergence_case(uint32_t slo_ms) {
  return fmt::format("convergence, {} ms", slo_ms);
}

struct SlabCases {
  std::span<const uint32_t> objectives_ms, convergences_ms;

  static SlabCases of(const BenchOptions& options) {
    if (options.quick) return {kQuickObjectivesMs, kQuickConvergencesMs};
    return {kObjectivesMs, kConvergencesMs};
  }
  std::vector<std::string> names(const std::string& dtype) const {
    std::vector<std::string> all;
    for (const uint32_t slo_ms : objectives_ms) all.push_back(objective_case(slo_ms, dtype));
    for (const uint32_t slo_ms : convergences_ms) all.push_back(convergence_case(slo_ms));
    return all;
  }
};

Status by_objective(const SlabBed& bed, uint32_t slo_ms, Report& report) {
  const std::string name = objective_case(slo_ms, bed.dtype);
  if (!bed.options.wants(name)) return {};
  const uint64_t slo_ns = slo_ms * 1'000'000ull;
  note_clamp(bed, name, slo_ns, report);
  const AddRow add = [&](Row row) { report.add(std::move(row)); };
  Samples slab, aimd;
  for (const sched::BatchControlKind control : kControls) {
    ITIF_ASSIGN(const GroupResult result,
                run_slab(bed, control, {.in_flight = bed.in_flight(slo_ns), .slo_ns = slo_ns}));
    add_control(add, name, name_of(control), result.served(), result.times());
    if (control == sched::BatchControlKind::kSlab) slab = result.per_s;
    if (control == sched::BatchControlKind::kAimd) aimd = result.per_s;
  }
  add_slab_over_aimd(add, name, paired_ratios(slab, aimd).median());
  return {};
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

Status converge(const SlabBed& bed, uint32_t slo_ms, Report& report) {
  if (!bed.options.wants(convergence_case(slo_ms))) return {};
  const uint64_t high_ns = slo_ms * 1'000'000ull;
  // Batches of one request, or a quarter of the larger ones.
  const uint64_t low_ns = std::min(3 * bed.model.alone_ns, high_ns / 4);
  note_clamp(bed, convergence_case(slo_ms), high_ns, report);
  const double interval_s = bed.options.run_seconds() / 40;
  TimeLine line = convergence_line(slo_ms, static_cast<double>(low_ns) / 1e6, interval_s);
  for (const auto control : {sched::BatchControlKind::kSlab, sched::BatchControlKind::kAimd}) {
    ITIF_ASSIGN(Convergence seen, step_objective(bed, control, low_ns, high_ns, interval_s));
    ITIF_ASSIGN(const double leaves_ms, company_leaves(bed, control, high_ns));
    const auto add = [&](const char* step, double ms, double spread) {
      add_convergence([&](Row row) { report.add(std::move(row)); }, {.slo_ms = slo_ms,
                                                                     .step = step,
                                                                     .control = name_of(control),
                                                                     .dtype = bed.dtype,
                                                                     .ms = ms,
                                                                     .spread = spread});
    };
    add(kObjectiveRises, seen.rise.median(), seen.rise.spread());
    add(kObjectiveFalls, seen.fall.median(), seen.fall.spread());
    add(kOtherLeaves, leaves_ms, 0);
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
  const SlabCases cases = SlabCases::of(options);
  if (!options.wants_any(cases.names(dtype))) return {};
  ITIF_ASSIGN(ServedModels models, ServedModels::make(kGsliceTokens));
  // The lightest model whose batches are still limited by the objectives.
  ITIF_ASSIGN(const ServedModel* model, models.get(kAlexnet.name(options), options, device, dtype));
  SlabBed bed{options, device, dtype, models, *model, 0};
  ITIF_ASSIGN(bed.peak_per_s, find_peak(bed));
  report.note(fmt::format(
      "{}: {}, {} tokens: a request alone takes {:.2f} ms; with large batches {:.0f} answers/s",
      dtype, model->name, kGsliceTokens, static_cast<double>(model->alone_ns) / 1e6,
      bed.peak_per_s));
  report.note(kSourcesOfControls);
  for (const uint32_t slo_ms : cases.objectives_ms) ITIF_TRY(by_objective(bed, slo_ms, report));
  for (const uint32_t slo_ms : cases.convergences_ms) ITIF_TRY(converge(bed, slo_ms, report));
  return {};
}

}  // namespace

Status bench_slab(const BenchOptions& options, Report& report) {
  return on_best_type(options, report, [&](device::Device& device, const std::string& dtype) {
    return run_slab_bench(options, device, dtype, report);
  });
}

}  // namespace itif::bench
