// itif-bench slices: GSLICE's Figures 8 to 10 and 15 to 16, Tables 2 and 3 on this device. One to
// four groups of unlike weight serve closed loops of requests, each by the appliance's own group
// thread, executor and batch control. Four modes:
//
// - default: batches of one request, and no shares of the device;
// - slab: batches as large as the objective allows, and no shares;
// - equal slices: slab, and equal shares;
// - tuned slices: slab, and shares that follow the loads.
//
// On the host, groups without shares compete for the CPUs with a pool each, as processes under
// CUDA's MPS without limits compete for a GPU. Shares are turns on the CPUs.
//
// Each group's answers must equal its answers alone before it is timed.
#include <fmt/format.h>

#include "benches.h"
#include "benches/slices_over_time.h"
#include "report/gslice_paper.h"
#include "workload/gslice_models.h"

namespace itif::bench {
namespace {

constexpr uint32_t kSliceInFlight = 16;  // requests of a group

struct SliceMode {
  const char* name;
  Batching batching;
  Sharing sharing;
};
constexpr SliceMode kSliceModes[] = {
    {"default", {.control = sched::BatchControlKind::kFixed, .max_requests = 1}, Sharing::kNone},
    {"slab", {}, Sharing::kNone},
    {"equal slices", {}, Sharing::kEqual},
    {"tuned slices", {}, Sharing::kTuned}};

struct SliceMix {
  const char* name;  // empty: that of its only model
  const char* networks;
  std::vector<GsliceModel> models;
};
const SliceMix kSliceMixes[] = {
    {"", "Mobilenet", {kMobilenet}},
    {"", "Alexnet", {kAlexnet}},
    {"", "ResNet-50", {kResNet}},
    {"", "VGG-19", {kVgg}},
    {"C1", "Alexnet, ResNet-50", {kAlexnet, kResNet}},
    {"C2", "Alexnet, VGG-19", {kAlexnet, kVgg}},
    {"C3", "Alexnet, ResNet-50, VGG-19", {kAlexnet, kResNet, kVgg}},
    {"C4", "Alexnet, Mobilenet, ResNet-50, VGG-19", {kAlexnet, kMobilenet, kResNet, kVgg}}};

// Throughput over latency (section 2.1.4), with the time of a batch as the latency: with requests
// always waiting, a client's latency is their number over the throughput.
double gue_of(double per_s, double execute_ms) {
  return execute_ms > 0 ? per_s / execute_ms : 0;
}

struct MixResult {
  std::vector<GroupResult> groups;
  Samples per_s() const {  // of all groups
    Samples sum;
    for (uint32_t part = 0; part < kRunParts; ++part) {
      double of_part = 0;
      for (const GroupResult& group : groups) of_part += group.per_s.in_order[part];
      sum.add(of_part);
    }
    return sum;
  }
  double execute_ms() const {  // of all answers
    double sum = 0, per_s = 0;
    for (const GroupResult& group : groups) {
      sum += group.per_s.median() * group.execute_ms;
      per_s += group.per_s.median();
    }
    return per_s > 0 ? sum / per_s : 0;
  }
  double gue() const { return gue_of(per_s().median(), execute_ms()); }
};

Result<MixResult> run_slice_mode(const SliceBed& bed, const SliceMix& mix, const SliceMode& mode) {
  ITIF_ASSIGN(const auto groups,
              ServedGroups::make(bed.options, bed.device, bed.dtype, mode.sharing));
  std::vector<std::string> names;
  for (const GsliceModel& model : mix.models) {
    ITIF_ASSIGN(const ServedModel* served, bed.model(model));
    ITIF_ASSIGN(
        const size_t group,
        groups->add(*served, mode.batching, {.in_flight = kSliceInFlight, .slo_ns = bed.slo_ns}));
    groups->begin(group);
    names.push_back(served->name);
  }
  const double seconds = bed.options.run_seconds();
  // Shares have settled after a few of their periods.
  const bool tunes = mode.sharing == Sharing::kTuned && mix.models.size() > 1;
  ITIF_ASSIGN(auto results, measure_groups(*groups, names, tunes ? seconds : seconds / 2, seconds));
  return MixResult{std::move(results)};
}

void add_group(Report& report, const std::string& name, const char* mode,
               const GroupResult& group) {
  const auto add = [&](double value, const char* unit) {
    report.add({.name = name, .mode = mode, .value = value, .unit = unit});
  };
  add(group.p50_ms, "p50 ms");
  add(group.p99_ms, "p99 ms");
  add(group.late_percent, "% late");
}

void add_mix(Report& report, const std::string& mix, const std::string& dtype, const char* mode,
             const MixResult& result) {
  const auto add = [&](const std::string& groups, const Samples& per_s, double execute_ms) {
    const std::string name = fmt::format("{}, {}, {}", mix, groups, dtype);
    report.add({.name = name,
                .mode = mode,
                .value = per_s.median(),
                .unit = "answers/s",
                .spread = per_s.spread()});
    report.add({.name = name, .mode = mode, .value = execute_ms, .unit = "batch ms"});
    report.add(
        {.name = name, .mode = mode, .value = gue_of(per_s.median(), execute_ms), .unit = "GUE"});
  };
  add("all groups", result.per_s(), result.execute_ms());
  if (result.groups.size() == 1)
    return add_group(report, fmt::format("{}, all groups, {}", mix, dtype), mode,
                     result.groups.front());
  for (const GroupResult& group : result.groups) {
    add(group.model, group.per_s, group.execute_ms);
    add_group(report, fmt::format("{}, {}, {}", mix, group.model, dtype), mode, group);
  }
}

// Our gain beside the paper's.
void add_gain(Report& report, const std::string& name, const SliceMode& mode,
              const MixResult& result, const MixResult& base, double stated_percent) {
  report.add({.name = name,
              .mode = fmt::format("GUE, {} / default", mode.name),
              .value = result.gue() / base.gue(),
              .unit = "times",
              .paper = 1 + stated_percent / 100});
  report.add({.name = name,
              .mode = fmt::format("answers/s, {} / default", mode.name),
              .value = paired_ratios(result.per_s(), base.per_s()).median(),
              .unit = "times"});
}

Status run_mix(const SliceBed& bed, const SliceMix& mix, Report& report) {
  const bool is_alone = mix.models.size() == 1;
  const std::string name = is_alone ? mix.models.front().name(bed.options) : mix.name;
  const std::string row = fmt::format("{}, all groups, {}", name, bed.dtype);
  if (!bed.options.wants(name) && !bed.options.wants(row)) return {};
  const StatedGain& stated = stated_gain(mix.networks);
  MixResult base;
  for (const SliceMode& mode : kSliceModes) {
    if (is_alone && mode.sharing == Sharing::kEqual) continue;  // as tuned
    ITIF_ASSIGN(MixResult result, run_slice_mode(bed, mix, mode));
    add_mix(report, name, bed.dtype, mode.name, result);
    if (&mode == &kSliceModes[0])
      base = std::move(result);
    else
      add_gain(report, row, mode, result, base,
               mode.sharing == Sharing::kNone ? stated.slab : stated.slices);
  }
  return {};
}

Status run_slices(const BenchOptions& options, device::Device& device, const std::string& dtype,
                  Report& report) {
  ITIF_ASSIGN(ServedModels models, ServedModels::make(kGsliceTokens));
  SliceBed bed{.options = options, .device = device, .dtype = dtype, .models = models};
  std::string alone;
  for (const GsliceModel& model : {kMobilenet, kAlexnet, kResNet, kVgg}) {
    ITIF_ASSIGN(const ServedModel* served, bed.model(model));
    bed.slo_ns = std::max(bed.slo_ns, objective_of(served->alone_ns));
    alone += fmt::format("{}{} {:.2f} ms (for {})", alone.empty() ? "" : ", ", served->name,
                         static_cast<double>(served->alone_ns) / 1e6, model.network);
  }
  report.note(fmt::format("{}: a request alone takes: {}", dtype, alone));
  report.note(fmt::format(
      "every group has an objective of {:.0f} ms and {} requests in flight; texts of {} tokens",
      static_cast<double>(bed.slo_ns) / 1e6, kSliceInFlight, kGsliceTokens));
  report.note(
      "the paper states for C1 to C4 6 to 13 times the answers/s of its default, and 1.2 to 4 "
      "times those of slab alone; `[`…`]` are its ratios of Tables 2 and 3, on a Tesla V100");
  for (const SliceMix& mix : kSliceMixes) ITIF_TRY(run_mix(bed, mix, report));
  return slices_over_time(bed, report);
}

}  // namespace

Status bench_slices(const BenchOptions& options, Report& report) {
  return on_best_type(options, report, [&](device::Device& device, const std::string& dtype) {
    return run_slices(options, device, dtype, report);
  });
}

}  // namespace itif::bench
