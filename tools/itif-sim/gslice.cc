#include "gslice.h"

#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "plots.h"
#include "report/gslice_paper.h"
#include "report/write_text.h"
#include "time_line.h"

namespace itif::sim {
namespace {

constexpr uint64_t kSecond = 1'000'000'000, kMs = 1'000'000;
constexpr const char* kLight[] = {"bert-tiny", "minilm-l6"};
constexpr const char* kHeavy[] = {"vit-base", "albert-large"};
// Assumed for Figures 12a and 12b: half of the time that the executor allows for the wake-up of a
// thread. The paper names this time, in which one stream leaves the GPU idle, and states no value.
constexpr uint64_t kNoticeNs = 50'000;

Scenario machine_scenario() {
  Scenario s;
  s.device = {.machine = "v100", .dtype = "f16"};
  s.data_plane.max_contexts = s.data_plane.tenant_max_contexts = 16384;
  s.client.max_in_flight = 16384;
  s.client.timeout_ns = 60 * kSecond;
  return s;
}

// `in_flight` requests at all times: texts of 64 tokens, or images.
GroupScenario busy_group(const std::string& model, uint64_t slo_ns, uint32_t in_flight) {
  GroupScenario group;
  group.name = model;
  group.model = {.preset = model};
  group.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = in_flight};
  group.lengths = {.kind = LengthKind::kUniform, .from = 64, .to = 64};
  group.batching.max_tokens = 64 * 256;  // 83 images of 197 tokens
  group.batching.max_wait_ns = 0;
  group.tenants.front().settings.slo_ns = slo_ns;
  return group;
}

void set_groups(Scenario& scenario, std::vector<GroupScenario> groups) {
  static_cast<GroupScenario&>(scenario) = groups.front();
  scenario.other_groups.assign(groups.begin() + 1, groups.end());
}

// default: batches of one request, and batches of all groups one after another. slab: batches as
// large as the objective allows. slices: with parts of the device, too.
void set_mode(Scenario& scenario, GroupScenario& group, const std::string& mode) {
  group.batching.batch_control = mode == "default" ? "fixed" : "slab";
  if (mode == "default") group.batching.max_requests = 1;
  if (mode == "slices") scenario.slices.mode = SliceMode::kTuned;
}

Result<MixRow> run_mix(const std::string& name, const std::vector<std::string>& models,
                       const std::string& mode, bool is_quick) {
  Scenario scenario = machine_scenario();
  scenario.duration_ns = (is_quick ? 4 : 16) * kSecond;
  scenario.warmup_ns = (is_quick ? 1 : 12) * kSecond;  // the parts have settled
  std::vector<GroupScenario> groups;
  for (const std::string& model : models) {
    groups.push_back(busy_group(model, 25 * kMs, 32));
    set_mode(scenario, groups.back(), mode);
  }
  set_groups(scenario, groups);
  ITIF_ASSIGN(const Results results, simulate(scenario));
  MixRow row = {.mix = name, .mode = mode, .groups = {}};
  for (size_t i = 0; i < models.size(); ++i) {
    const TenantResults& tenant = results.tenants[i];
    row.groups.push_back({.model = models[i],
                          .per_s = results.per_second(static_cast<double>(tenant.answered)),
                          .mean_ms = tenant.latency_ns.mean() / 1e6,
                          .p99_ms = static_cast<double>(tenant.latency_ns.percentile(99)) / 1e6,
                          .execute_ms = results.groups[i].mean_execute_ms});
  }
  return row;
}

Result<ComponentRow> run_component(const std::string& model, const bench::Component& component,
                                   bool is_quick) {
  Scenario scenario = machine_scenario();
  scenario.device.inputs = component.is_zero_copy ? "gather" : "copy";
  scenario.device.notice_ns = kNoticeNs;
  scenario.duration_ns = (is_quick ? 2 : 16) * kSecond;
  scenario.warmup_ns = scenario.duration_ns / 2;          // batches have found their size
  GroupScenario group = busy_group(model, 25 * kMs, 64);  // two batches, if they overlap
  set_mode(scenario, group, component.batches ? "slab" : "default");
  group.batching.overlap = component.overlaps ? "on" : "off";
  set_groups(scenario, {group});
  ITIF_ASSIGN(const Results results, simulate(scenario));
  const TenantResults& tenant = results.tenants.front();
  return ComponentRow{.model = model,
                      .mode = component.name,
                      .per_s = results.per_second(static_cast<double>(tenant.answered)),
                      .p50_ms = static_cast<double>(tenant.latency_ns.percentile(50)) / 1e6,
                      .execute_ms = results.groups.front().mean_execute_ms};
}

double convergence_ms(const GroupResults& group, uint64_t interval_ns, uint64_t from_ns) {
  const size_t first = from_ns / interval_ns, last = group.intervals.size();
  if (last < first + 12) return 0;
  // The last interval is not whole.
  double at_last = 0;
  for (size_t i = last - 11; i < last - 1; ++i)
    at_last += static_cast<double>(group.intervals[i].answered) / 10;
  for (size_t i = first; i < last; ++i)
    if (static_cast<double>(group.intervals[i].answered) >= 0.95 * at_last)
      return static_cast<double>((i + 1 - first) * interval_ns) / 1e6;
  return 0;
}

Result<ControlRow> run_control(const std::string& control, uint64_t slo_ms, bool is_quick) {
  constexpr uint64_t kIntervalNs = 100 * kMs;
  // About half of what the group answers within its objective.
  const auto in_flight = static_cast<uint32_t>(slo_ms);
  Scenario scenario = machine_scenario();
  const uint64_t step_ns = (is_quick ? 2 : 15) * kSecond;
  scenario.duration_ns = 2 * step_ns;
  scenario.warmup_ns = step_ns * 3 / 2;
  GroupScenario group = busy_group("albert-large", slo_ms * kMs, in_flight);
  GroupScenario other = busy_group("vit-base", slo_ms * kMs, in_flight);
  group.batching.batch_control = other.batching.batch_control = control;
  other.slice.until_ns = step_ns;
  set_groups(scenario, {group, other});
  ITIF_ASSIGN(const Results results, simulate(scenario, {.interval_ns = kIntervalNs}));
  const TenantResults& tenant = results.tenants.front();
  uint64_t answered = 0, missed = 0;
  for (const GroupInterval& interval : results.groups.front().intervals) {
    answered += interval.answered;
    missed += interval.missed;
  }
  return ControlRow{
      .control = control,
      .slo_ms = static_cast<double>(slo_ms),
      .per_s = results.per_second(static_cast<double>(tenant.answered)),
      .p99_ms = static_cast<double>(tenant.latency_ns.percentile(99)) / 1e6,
      .late_percent =
          answered == 0 ? 0 : 100 * static_cast<double>(missed) / static_cast<double>(answered),
      .convergence_ms = convergence_ms(results.groups.front(), kIntervalNs, step_ns)};
}

// Figure 15: the second group arrives at a third of the time and the first ends at five sixths.
Result<TimeLine> run_arrival(const std::string& mode, const std::string& title, bool is_quick) {
  Scenario scenario = machine_scenario();
  scenario.duration_ns = (is_quick ? 6 : 60) * kSecond;
  GroupScenario first = busy_group("vit-base", 50 * kMs, 48);
  GroupScenario second = busy_group("albert-large", 50 * kMs, 48);
  first.slice.until_ns = scenario.duration_ns * 5 / 6;
  second.slice.from_ns = scenario.duration_ns / 3;
  first.batching.batch_control = second.batching.batch_control =
      mode == "clipper" ? "aimd" : "slab";
  if (mode == "slices") scenario.slices.mode = SliceMode::kTuned;
  set_groups(scenario, {first, second});
  ITIF_ASSIGN(Results results, simulate(scenario));
  return TimeLine{.name = "figure-15-" + mode, .title = title, .results = std::move(results)};
}

// Figure 16: both groups start with 30 %, too little for one and too much for the other.
Result<TimeLine> run_tuning(bool is_quick) {
  Scenario scenario = machine_scenario();
  scenario.duration_ns = (is_quick ? 8 : 60) * kSecond;
  scenario.slices.mode = SliceMode::kTuned;
  scenario.slices.lends = false;
  GroupScenario heavy = busy_group("albert-large", 50 * kMs, 1);
  GroupScenario light = busy_group("vit-base", 50 * kMs, 1);
  heavy.arrivals = {.kind = ArrivalKind::kPoisson, .rate = 900};
  light.arrivals = {.kind = ArrivalKind::kPoisson, .rate = 130};  // few, as in the paper
  heavy.batching.max_wait_ns = light.batching.max_wait_ns = kSecond;
  set_groups(scenario, {heavy, light});
  ITIF_ASSIGN(Results results, simulate(scenario));
  return TimeLine{.name = "figure-16",
                  .title = "Figure 16: two groups tune their parts of the device",
                  .results = std::move(results)};
}

}  // namespace

Status gslice_command(const GsliceOptions& options) {
  if (!options.out.empty()) ITIF_TRY(make_writable(options.out));
  ITIF_ASSIGN(const GsliceReport report, run_gslice(options.is_quick));
  const std::string command = fmt::format("itif-sim gslice{}", options.is_quick ? " --quick" : "");
  fmt::print("{}", options.json ? to_json(report) : to_markdown(command, report));
  if (options.out.empty()) return {};
  ITIF_TRY(draw(components_figure(report), options.out));
  for (const TimeLine& line : report.time_lines)
    ITIF_TRY(draw(time_line_figure(line.name, line.title, line.results), options.out));
  ITIF_TRY(bench::write_text(options.out + "/figures.json", to_json(report)));
  return bench::write_text(options.out + "/report.md", to_markdown(command, report));
}

double MixRow::per_s() const {
  double sum = 0;
  for (const Group& group : groups) sum += group.per_s;
  return sum;
}

double MixRow::mean_ms() const {
  double sum = 0;
  for (const Group& group : groups) sum += group.per_s * group.mean_ms;
  return per_s() > 0 ? sum / per_s() : 0;
}

double MixRow::execute_ms() const {
  double sum = 0;
  for (const Group& group : groups) sum += group.per_s * group.execute_ms;
  return per_s() > 0 ? sum / per_s() : 0;
}

Result<GsliceReport> run_gslice(bool is_quick) {
  GsliceReport report;
  const std::string tiny = kLight[0], mini = kLight[1], base = kHeavy[0], large = kHeavy[1];
  const std::pair<std::string, std::vector<std::string>> mixes[] = {
      {tiny, {tiny}},
      {mini, {mini}},
      {base, {base}},
      {large, {large}},
      {"C1", {mini, base}},
      {"C2", {mini, large}},
      {"C3", {mini, base, large}},
      {"C4", {mini, tiny, base, large}}};
  for (const auto& [name, models] : mixes)
    for (const char* mode : kModes) {
      ITIF_ASSIGN(MixRow row, run_mix(name, models, mode, is_quick));
      report.mixes.push_back(std::move(row));
    }
  for (const std::string& model : {mini, base, large})
    for (const bench::Component& component : bench::kComponents) {
      ITIF_ASSIGN(ComponentRow row, run_component(model, component, is_quick));
      report.components.push_back(std::move(row));
    }
  for (const uint64_t slo_ms : {25, 50, 75, 100})
    for (const char* control : {"slab", "aimd"}) {
      ITIF_ASSIGN(ControlRow row, run_control(control, slo_ms, is_quick));
      report.controls.push_back(std::move(row));
    }
  const std::pair<const char*, const char*> arrivals[] = {
      {"slab", "Figure 15a: slab, without parts of the device"},
      {"slices", "Figure 15b: slab and parts of the device"},
      {"clipper", "Figure 15c: aimd, without parts of the device"}};
  for (const auto& [mode, title] : arrivals) {
    ITIF_ASSIGN(TimeLine line, run_arrival(mode, title, is_quick));
    report.time_lines.push_back(std::move(line));
  }
  ITIF_ASSIGN(TimeLine tuning, run_tuning(is_quick));
  report.time_lines.push_back(std::move(tuning));
  return report;
}

}  // namespace itif::sim
