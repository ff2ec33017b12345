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
#include "report/gslice_rows.h"
#include "workload/gslice_models.h"

namespace itif::bench {
namespace {

constexpr uint32_t kSliceInFlight = 16;  // requests of a group

struct SliceMode {
  const char* name;
  Way way;
  Batching batching;
  Sharing sharing;
};
constexpr SliceMode kSliceModes[] = {
    {"default",
     Way::kDefault,
     {.control = sched::BatchControlKind::kFixed, .max_requests = 1},
     Sharing::kNone},
    {"slab", Way::kSlab, {}, Sharing::kNone},
    {"equal slices", Way::kSlices, {}, Sharing::kEqual},
    {"tuned slices", Way::kSlices, {}, Sharing::kTuned}};

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
  Served served() const {
    const Samples all = per_s();
    return {.per_s = all.median(), .spread = all.spread(), .batch_ms = execute_ms()};
  }
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

void add_mix(const AddRow& add, const std::string& mix, const std::string& dtype,
             const SliceMode& mode, const MixResult& result, const StatedMix& stated) {
  const std::string all = fmt::format("{}, all groups, {}", mix, dtype);
  add_served(add, all, mode.name, mode.way, result.served(), &stated);
  if (result.groups.size() == 1) return add_times(add, all, mode.name, result.groups[0].times());
  for (const GroupResult& group : result.groups) {
    const std::string name = fmt::format("{}, {}, {}", mix, group.model, dtype);
    add_served(add, name, mode.name, mode.way, group.served(), nullptr);
    add_times(add, name, mode.name, group.times());
  }
}

// The name that chooses a mix, and that of its rows.
std::pair<std::string, std::string> mix_cases(const SliceMix& mix, const BenchOptions& options,
                                              const std::string& dtype) {
  const std::string name = mix.models.size() == 1 ? mix.models.front().name(options) : mix.name;
  return {name, fmt::format("{}, all groups, {}", name, dtype)};
}

std::vector<std::string> slice_cases(const BenchOptions& options, const std::string& dtype) {
  std::vector<std::string> names = slices_over_time_cases();
  for (const SliceMix& mix : kSliceMixes) {
    const auto [name, row] = mix_cases(mix, options, dtype);
    names.insert(names.end(), {name, row});
  }
  return names;
}

Status run_mix(const SliceBed& bed, const SliceMix& mix, Report& report) {
  const bool is_alone = mix.models.size() == 1;
  const auto [name, row] = mix_cases(mix, bed.options, bed.dtype);
  if (!bed.options.wants_any({name, row})) return {};
  const AddRow add = [&](Row one) { report.add(std::move(one)); };
  const StatedMix& stated = stated_mix(mix.networks);
  MixResult base, slab;
  for (const SliceMode& mode : kSliceModes) {
    if (is_alone && mode.sharing == Sharing::kEqual) continue;  // as tuned
    ITIF_ASSIGN(MixResult result, run_slice_mode(bed, mix, mode));
    add_mix(add, name, bed.dtype, mode, result, stated);
    if (mode.way != Way::kDefault) {
      const bool has_slices = mode.way == Way::kSlices && !is_alone;
      add_gains(
          add, row, mode.way,
          {.mode = mode.name,
           .gue = result.served().gue() / base.served().gue(),
           .per_s = paired_ratios(result.per_s(), base.per_s()).median(),
           .over_slab = has_slices ? paired_ratios(result.per_s(), slab.per_s()).median() : 0},
          stated);
      if (has_slices && mix.models.size() > 2)
        add_heaviest(add, fmt::format("{}, {}, {}", name, result.groups.back().model, bed.dtype),
                     mode.name,
                     paired_ratios(result.groups.back().per_s, slab.groups.back().per_s).median());
    }
    if (mode.way == Way::kDefault) base = result;
    if (mode.way == Way::kSlab) slab = std::move(result);
  }
  return {};
}

Status run_slices(const BenchOptions& options, device::Device& device, const std::string& dtype,
                  Report& report) {
  if (!options.wants_any(slice_cases(options, dtype))) return {};
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
  report.note(kSourcesOfMixes);
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
