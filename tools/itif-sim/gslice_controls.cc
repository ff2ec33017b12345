// GSLICE's Figures 12c and 14, simulated: slab and aimd by objective, as itif-bench slab measures
// them on a device.
#include <algorithm>
#include <cmath>

#include "commands.h"
#include "gslice.h"
#include "report/convergence.h"
#include "time_line.h"

namespace itif::sim {
namespace {

constexpr const char* kControlledModel = "albert-large";
constexpr uint32_t kObjectivesMs[] = {25, 50, 75, 100};
constexpr const char* kControls[] = {"slab", "aimd"};
// The parts of a run of Figure 12c: the low objective, the high one, and the low one again.
constexpr uint64_t kBeforeNs = kSecond, kHighNs = 4 * kSecond, kAfterNs = 2 * kSecond;

// The group's answers/s with large batches, and the time of a batch of one request.
struct Rates {
  double peak_per_s = 0, alone_ms = 0;

  uint32_t in_flight(uint64_t slo_ms) const {
    return static_cast<uint32_t>(
        std::lround(bench::kPartInFlight * peak_per_s * static_cast<double>(slo_ms) / 1e3));
  }
};

Result<bench::Served> run_fixed(uint32_t in_flight) {
  GroupScenario group = busy_group(kControlledModel, 0, in_flight);
  group.batching.batch_control = "fixed";
  Scenario scenario = gslice_scenario({group});
  scenario.duration_ns = 2 * kSecond;
  scenario.warmup_ns = kSecond;
  ITIF_ASSIGN(const Results results, simulate(scenario));
  return served_of(results, 0);
}

Result<Rates> measure_rates() {
  ITIF_ASSIGN(const bench::Served many, run_fixed(64));
  ITIF_ASSIGN(const bench::Served one, run_fixed(1));
  return Rates{.peak_per_s = many.per_s, .alone_ms = one.batch_ms};
}

GroupScenario group_under(const char* control, const Rates& rates, uint32_t slo_ms) {
  GroupScenario group = busy_group(kControlledModel, slo_ms * kMs, rates.in_flight(slo_ms));
  group.batching.batch_control = control;
  return group;
}

Result<ControlRow> run_control(const char* control, const Rates& rates, uint32_t slo_ms,
                               bool is_quick) {
  Scenario scenario = gslice_scenario({group_under(control, rates, slo_ms)});
  scenario.duration_ns = (is_quick ? 3 : 20) * kSecond;
  scenario.warmup_ns = (is_quick ? 1 : 5) * kSecond;
  ITIF_ASSIGN(const Results results, simulate(scenario, {.notes_batches = true}));
  return ControlRow{.control = control,
                    .slo_ms = slo_ms,
                    .served = served_of(results, 0),
                    .times = times_of(results, 0)};
}

// Batches of a device run one after another: each begins when the one before ends.
std::vector<bench::BatchSeen> batches_of(const GroupResults& group) {
  std::vector<bench::BatchSeen> batches;
  uint64_t begun_ns = 0;
  for (const BatchEnd& batch : group.batches) {
    batches.push_back(
        {.begun_ns = begun_ns, .done_ns = batch.at_ns, .num_requests = batch.num_requests});
    begun_ns = batch.at_ns;
  }
  return batches;
}

// Raises the objective of the only tenant, and lowers it again.
class ObjectiveSteps final : public Intruder {
 public:
  ObjectiveSteps(Simulation& simulation, uint64_t low_ns, uint64_t high_ns)
      : simulation_(simulation), low_ns_(low_ns), high_ns_(high_ns) {}
  uint64_t next_ns() const noexcept override {
    constexpr uint64_t kTimes[] = {kBeforeNs, kBeforeNs + kHighNs};
    return num_steps_ < std::size(kTimes) ? simulation_.start_ns() + kTimes[num_steps_]
                                          : UINT64_MAX;
  }
  Status act() override {
    simulation_.set_objective(0, num_steps_++ == 0 ? high_ns_ : low_ns_);
    return {};
  }

 private:
  Simulation& simulation_;
  uint64_t low_ns_, high_ns_;
  size_t num_steps_ = 0;
};

Result<Results> step_objective(const char* control, const Rates& rates, uint32_t slo_ms,
                               uint64_t low_ns) {
  GroupScenario group = group_under(control, rates, slo_ms);
  group.tenants.front().settings.slo_ns = low_ns;
  Scenario scenario = gslice_scenario({group});
  scenario.duration_ns = kBeforeNs + kHighNs + kAfterNs;
  ITIF_ASSIGN(Nic * nic, process_nic());
  ITIF_ASSIGN(const auto simulation,
              Simulation::create(scenario, *nic, {.interval_ns = 50 * kMs, .notes_batches = true}));
  ObjectiveSteps steps(*simulation, low_ns, slo_ms * kMs);
  ITIF_TRY(simulation->run(&steps));
  return simulation->results();
}

// From the end of another group, with which the group shared the device.
Result<double> other_leaves_ms(const char* control, const Rates& rates, uint32_t slo_ms) {
  GroupScenario other = busy_group("vit-base", slo_ms * kMs, 4);
  other.slice.until_ns = kHighNs;
  Scenario scenario = gslice_scenario({group_under(control, rates, slo_ms), other});
  scenario.duration_ns = 2 * kHighNs;
  ITIF_ASSIGN(const Results results, simulate(scenario, {.notes_batches = true}));
  return bench::convergence_ms(batches_of(results.groups.front()), kHighNs, 2 * kHighNs);
}

Status converge(const Rates& rates, uint32_t slo_ms, GsliceReport& report) {
  // Batches of one request, or a quarter of the larger ones.
  const double low_ms = std::min(3 * rates.alone_ms, slo_ms / 4.0);
  bench::TimeLine line;
  for (const char* control : kControls) {
    ITIF_ASSIGN(const Results results,
                step_objective(control, rates, slo_ms, static_cast<uint64_t>(low_ms * 1e6)));
    const std::vector<bench::BatchSeen> batches = batches_of(results.groups.front());
    ITIF_ASSIGN(const double leaves_ms, other_leaves_ms(control, rates, slo_ms));
    constexpr uint64_t kFallNs = kBeforeNs + kHighNs;
    for (const auto& [step, ms] :
         {std::pair{bench::kObjectiveRises, bench::convergence_ms(batches, kBeforeNs, kFallNs)},
          {bench::kObjectiveFalls, bench::convergence_ms(batches, kFallNs, kFallNs + kAfterNs)},
          {bench::kOtherLeaves, leaves_ms}})
      report.convergences.push_back(
          {.slo_ms = slo_ms, .step = step, .control = control, .dtype = kGsliceType, .ms = ms});
    bench::TimeLine of_control = time_line_of({}, {}, results);
    if (line.series.empty()) line = bench::convergence_line(slo_ms, low_ms, of_control.interval_s);
    for (bench::TimeLine::Interval& interval : of_control.series.front().intervals)
      interval.share_percent = interval.sent_per_s = 0;  // do not matter here
    line.series.push_back(
        {.name = control, .intervals = std::move(of_control.series.front().intervals)});
  }
  report.convergence_lines.push_back(std::move(line));
  return {};
}

}  // namespace

Status run_controls(bool is_quick, GsliceReport& report) {
  ITIF_ASSIGN(const Rates rates, measure_rates());
  for (const uint32_t slo_ms : kObjectivesMs)
    for (const char* control : kControls) {
      ITIF_ASSIGN(ControlRow row, run_control(control, rates, slo_ms, is_quick));
      report.controls.push_back(std::move(row));
    }
  for (const bench::StatedConvergence& stated : bench::kStatedConvergences)
    ITIF_TRY(converge(rates, stated.slo_ms, report));
  return {};
}

}  // namespace itif::sim
