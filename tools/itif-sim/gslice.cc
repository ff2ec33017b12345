#include "gslice.h"

#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "plots.h"
#include "report/figures.h"
#include "report/write_text.h"
#include "time_line.h"

namespace itif::sim {
namespace {

constexpr const char* kLight[] = {"bert-tiny", "minilm-l6"};
constexpr const char* kHeavy[] = {"vit-base", "albert-large"};
// Assumed for Figures 12a and 12b: half of the time that the executor allows for the wake-up of a
// thread. The paper names this time, in which one stream leaves the GPU idle, and states no value.
constexpr uint64_t kNoticeNs = 50'000;

// default: batches of one request, and batches of all groups one after another. slab: batches as
// large as the objective allows. With slices, groups have parts of the device, too.
void set_way(GroupScenario& group, bench::Way way) {
  group.batching.batch_control = way == bench::Way::kDefault ? "fixed" : "slab";
  if (way == bench::Way::kDefault) group.batching.max_requests = 1;
}

struct Mix {
  std::string name, networks;
  std::vector<std::string> models;
};

Result<MixRow> run_mix(const Mix& mix, bench::Way way, bool is_quick) {
  std::vector<GroupScenario> groups;
  for (const std::string& model : mix.models) {
    groups.push_back(busy_group(model, 25 * kMs, 32));
    set_way(groups.back(), way);
  }
  Scenario scenario = gslice_scenario(groups);
  if (way == bench::Way::kSlices) scenario.slices.mode = SliceMode::kTuned;
  scenario.duration_ns = (is_quick ? 4 : 16) * kSecond;
  scenario.warmup_ns = (is_quick ? 1 : 12) * kSecond;  // the parts have settled
  ITIF_ASSIGN(const Results results, simulate(scenario, {.notes_batches = true}));
  MixRow row = {.mix = mix.name, .networks = mix.networks, .way = way, .groups = {}};
  for (size_t i = 0; i < mix.models.size(); ++i)
    row.groups.push_back({.model = mix.models[i],
                          .served = served_of(results, i),
                          .times = times_of(results, i),
                          .mean_ms = results.tenants[i].latency_ns.mean() / 1e6});
  return row;
}

Result<ComponentRow> run_component(const std::string& model, const std::string& network,
                                   const bench::Component& component, bool is_quick) {
  GroupScenario group = busy_group(model, 25 * kMs, 64);  // two batches, if they overlap
  set_way(group, component.batches ? bench::Way::kSlab : bench::Way::kDefault);
  group.batching.overlap = component.overlaps ? "on" : "off";
  Scenario scenario = gslice_scenario({group});
  scenario.device.inputs = component.is_zero_copy ? "gather" : "copy";
  scenario.device.notice_ns = kNoticeNs;
  scenario.duration_ns = (is_quick ? 2 : 16) * kSecond;
  scenario.warmup_ns = scenario.duration_ns / 2;  // batches have found their size
  ITIF_ASSIGN(const Results results, simulate(scenario, {.notes_batches = true}));
  const bench::AnswerTimes times = times_of(results, 0);
  return ComponentRow{.model = model,
                      .network = network,
                      .component = component,
                      .served = served_of(results, 0),
                      .p50_ms = times.p50_ms,
                      .p99_ms = times.p99_ms};
}

// Figure 15: the second group arrives at a third of the time and the first ends at five sixths.
Result<bench::TimeLine> run_arrival(const std::string& mode, const std::string& title,
                                    bool is_quick) {
  const uint64_t duration_ns = (is_quick ? 6 : 60) * kSecond;
  GroupScenario first = busy_group("vit-base", 50 * kMs, 48);
  GroupScenario second = busy_group("albert-large", 50 * kMs, 48);
  first.slice.until_ns = duration_ns * 5 / 6;
  second.slice.from_ns = duration_ns / 3;
  first.batching.batch_control = second.batching.batch_control =
      mode == "clipper" ? "aimd" : "slab";
  Scenario scenario = gslice_scenario({first, second});
  scenario.duration_ns = duration_ns;
  if (mode == "slices") scenario.slices.mode = SliceMode::kTuned;
  ITIF_ASSIGN(const Results results, simulate(scenario));
  return time_line_of("figure-15-" + mode, title, results);
}

// Figure 16: both groups start with 30 %, too little for one and too much for the other.
Result<bench::TimeLine> run_tuning(bool is_quick) {
  GroupScenario heavy = busy_group("albert-large", 50 * kMs, 1);
  GroupScenario light = busy_group("vit-base", 50 * kMs, 1);
  heavy.arrivals = {.kind = ArrivalKind::kPoisson, .rate = 900};
  light.arrivals = {.kind = ArrivalKind::kPoisson, .rate = 130};  // few, as in the paper
  heavy.batching.max_wait_ns = light.batching.max_wait_ns = kSecond;
  Scenario scenario = gslice_scenario({heavy, light});
  scenario.duration_ns = (is_quick ? 8 : 60) * kSecond;
  scenario.slices.mode = SliceMode::kTuned;
  scenario.slices.lends = false;
  ITIF_ASSIGN(const Results results, simulate(scenario));
  return time_line_of("figure-16", "Figure 16: two groups tune their parts of the device", results);
}

}  // namespace

Status gslice_command(const GsliceOptions& options) {
  if (!options.out.empty()) ITIF_TRY(make_writable(options.out));
  ITIF_ASSIGN(const GsliceReport report, run_gslice(options.is_quick));
  const std::string command = fmt::format("itif-sim gslice{}", options.is_quick ? " --quick" : "");
  fmt::print("{}", options.json ? to_json(report) : to_markdown(command, report));
  if (options.out.empty()) return {};
  // The figures last: they need gnuplot.
  ITIF_TRY(bench::write_text(options.out + "/figures.json", to_json(report)));
  ITIF_TRY(bench::write_text(options.out + "/report.md", to_markdown(command, report)));
  for (const bench::Figure& figure : bench::make_figures(results_of(report)))
    ITIF_TRY(draw(figure, options.out));
  return {};
}

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

Scenario gslice_scenario(std::vector<GroupScenario> groups) {
  Scenario s;
  static_cast<GroupScenario&>(s) = groups.front();
  s.other_groups.assign(groups.begin() + 1, groups.end());
  s.device = {.machine = "v100", .dtype = kGsliceType};
  s.slices.unmet_demands = slice::UnmetDemands::kProportional;  // section 3.2.3
  s.data_plane.max_contexts = s.data_plane.tenant_max_contexts = 16384;
  s.client.max_in_flight = 16384;
  s.client.timeout_ns = 60 * kSecond;
  return s;
}

bench::Served served_of(const Results& results, size_t group) {
  return {.per_s = results.per_second(static_cast<double>(results.tenants[group].answered)),
          .batch_ms = results.groups[group].mean_execute_ms};
}

bench::AnswerTimes times_of(const Results& results, size_t group) {
  const TenantResults& tenant = results.tenants[group];
  // Counts the periods after the warm-up.
  uint64_t answered = 0, missed = 0;
  const std::vector<GroupInterval>& intervals = results.groups[group].intervals;
  const uint64_t warmup_ns =
      results.simulated_ns - std::min(results.simulated_ns, results.measured_ns);
  for (size_t i = warmup_ns / std::max<uint64_t>(1, results.interval_ns); i < intervals.size();
       ++i) {
    answered += intervals[i].answered;
    missed += intervals[i].missed;
  }
  const auto percentile_ms = [&](double percent) {
    return static_cast<double>(tenant.latency_ns.percentile(percent)) / 1e6;
  };
  return {.p50_ms = percentile_ms(50),
          .p99_ms = percentile_ms(99),
          .late_percent = answered == 0
                              ? 0
                              : 100 * static_cast<double>(missed) / static_cast<double>(answered)};
}

bench::Served MixRow::served() const {
  bench::Served all;
  for (const Group& group : groups) {
    all.per_s += group.served.per_s;
    all.batch_ms += group.served.per_s * group.served.batch_ms;
  }
  all.batch_ms = all.per_s > 0 ? all.batch_ms / all.per_s : 0;
  return all;
}

Result<GsliceReport> run_gslice(bool is_quick) {
  GsliceReport report;
  const std::string tiny = kLight[0], mini = kLight[1], base = kHeavy[0], large = kHeavy[1];
  const Mix mixes[] = {{tiny, "Mobilenet", {tiny}},
                       {mini, "Alexnet", {mini}},
                       {base, "ResNet-50", {base}},
                       {large, "VGG-19", {large}},
                       {"C1", "Alexnet, ResNet-50", {mini, base}},
                       {"C2", "Alexnet, VGG-19", {mini, large}},
                       {"C3", "Alexnet, ResNet-50, VGG-19", {mini, base, large}},
                       {"C4", "Alexnet, Mobilenet, ResNet-50, VGG-19", {mini, tiny, base, large}}};
  for (const Mix& mix : mixes)
    for (const bench::Way way : {bench::Way::kDefault, bench::Way::kSlab, bench::Way::kSlices}) {
      ITIF_ASSIGN(MixRow row, run_mix(mix, way, is_quick));
      report.mixes.push_back(std::move(row));
    }
  for (const auto& [model, network] :
       {std::pair{mini, "Alexnet"}, {base, "ResNet-50"}, {large, "VGG-19"}})
    for (const bench::Component& component : bench::kComponents) {
      ITIF_ASSIGN(ComponentRow row, run_component(model, network, component, is_quick));
      report.components.push_back(std::move(row));
    }
  ITIF_TRY(run_controls(is_quick, report));
  const std::pair<const char*, const char*> arrivals[] = {
      {"slab", "Figure 15a: slab, without parts of the device"},
      {"slices", "Figure 15b: slab and parts of the device"},
      {"clipper", "Figure 15c: aimd, without parts of the device"}};
  for (const auto& [mode, title] : arrivals) {
    ITIF_ASSIGN(bench::TimeLine line, run_arrival(mode, title, is_quick));
    report.time_lines.push_back(std::move(line));
  }
  ITIF_ASSIGN(bench::TimeLine tuning, run_tuning(is_quick));
  report.time_lines.push_back(std::move(tuning));
  return report;
}

}  // namespace itif::sim
