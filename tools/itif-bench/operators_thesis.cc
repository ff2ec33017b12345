// Tables 5.3 and 5.4: BERT-base's forward pass in the thesis's form, profiled operator by operator: four
// tenants with a request of 128 tokens each, by execution mode (execution.h), and fused beside them.
//
// An operator's time is that of all tenants' calls together, as a profiler of kernels adds it up. Where
// tenants run at once, calls overlap and wait for each other, which is what Table 5.3 shows of the
// thesis's streams. Launch time is that of as many launches with next to nothing to do, made the same way.
// On a GPU operators run one by one in each tenant's stream (device/metered_stream.h): their time is the GPU's own, and
// launch time that of the calls that made them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "modes.h"
#include "operator_rows.h"

namespace itif::bench {
namespace {

constexpr uint32_t kTenants = 4, kLength = 128;
constexpr uint32_t kQuickLayers = 2;

struct PaperRow {
  double seq, multi_stream, mps, itif;
  std::optional<double> of(std::string_view mode) const {
    if (mode == "seq") return seq;
    if (mode == "multi-stream") return multi_stream;
    if (mode == "mps") return mps;
    if (mode == "itif") return itif;
    return std::nullopt;
  }
};
// Table 5.4: calls of cudaLaunchKernel, and ms.
constexpr PaperRow kPaperLaunches{776, 776, 776, 517}, kPaperTime{2.834, 6.757, 5.324, 1.817};

// A row of Table 5.3: an operator that several calls may be; bytes of a layer, read and written, for all
// tenants; ms of the thesis.
struct MemoryBound {
  const char* name;
  const char* operator_name;
  size_t bytes_of_layer;
  std::optional<PaperRow> paper;
};

std::vector<MemoryBound> memory_bound_operators(size_t element) {
  const size_t rows = size_t{kTenants} * kLength;
  const size_t wide = rows * kHidden * element;
  return {{"softmax", "softmax", 2 * rows * kHeads * kLength * element,
           PaperRow{0.333, 0.790, 0.432, 0.356}},
          {"add-bias + LayerNorm", "residual_layer_norm", 2 * 3 * wide,
           PaperRow{0.291, 0.606, 0.325, 0.310}},
          {"add-bias + GELU", "bias_activation", 2 * rows * kIntermediate * element,
           PaperRow{0.245, 0.847, 0.349, 0.275}},
          {"transpose", "merge_heads", 2 * wide, PaperRow{0.209, 0.519, 0.289, 0.220}},
          {"bias + transpose of Q/K/V", "split_heads", 6 * wide, std::nullopt}};
}

// What runs of one mode took.
struct ModeProfile {
  std::string mode;
  std::map<std::string, Samples> operators = {};
  Samples launch = {}, empty = {};
  uint64_t launches = 0;  // a run

  void add(const RunProfile& run) {
    for (const auto& [name, ns] : run.operator_ns) operators[name].add(ns);
    launch.add(run.launch_ns);
    empty.add(run.empty_ns);
    launches = run.launches;
  }
};

// Checked against `expected`, which the first mode sets: as it runs, and as it runs while it is profiled.
Result<ModeProfile> profile(std::string name, std::string_view mode, const Workload& workload,
                            const Effort& effort, std::vector<float>& expected) {
  static const SystemClock clock;
  ITIF_ASSIGN(const auto execution, make_execution(mode, workload));
  ITIF_ASSIGN(std::vector<float> states, execution->last_states());
  if (expected.empty())
    expected = std::move(states);
  else
    ITIF_TRY(check_same(name, states, expected, workload));
  ModeProfile all{.mode = std::move(name)};
  for (int warm_up = 0; warm_up < 2; ++warm_up) ITIF_TRY(execution->profile());
  ITIF_ASSIGN(states, execution->last_states());
  ITIF_TRY(check_same(all.mode, states, expected, workload));
  const uint64_t start_ns = clock.now_ns();
  for (uint32_t i = 0; i < effort.most; ++i) {
    if (i >= effort.least && static_cast<double>(clock.now_ns() - start_ns) * 1e-9 > effort.seconds)
      break;
    ITIF_ASSIGN(const RunProfile run, execution->profile());
    all.add(run);
  }
  return all;
}

Result<std::vector<ModeProfile>> profile_modes(Workload workload, const Effort& effort) {
  std::vector<ModeProfile> all;
  std::vector<float> expected;
  for (const std::string_view mode : execution_modes()) {
    ITIF_ASSIGN(ModeProfile one, profile(std::string(mode), mode, workload, effort, expected));
    all.push_back(std::move(one));
  }
  workload.fidelity = backbone::Fidelity::kFused;
  ITIF_ASSIGN(ModeProfile fused, profile("itif fused", "itif", workload, effort, expected));
  all.push_back(std::move(fused));
  return all;
}

std::string how_a_gpu_is_timed(const std::vector<ModeProfile>& modes) {
  std::vector<std::string> empty;
  for (const ModeProfile& mode : modes)
    empty.push_back(fmt::format("{} {:.1f}", mode.mode,
                                mode.empty.median() * 1e-3 / static_cast<double>(mode.launches)));
  return fmt::format(
      "for Tables 5.3 and 5.4 each operator is launched, and waited for, by itself: never as a "
      "part of a CUDA graph. Table 5.3 has the GPU's own times, which begin when it is told, ahead "
      "of the launch: with next to nothing to do a launch takes, us: {}. Table 5.4 has the "
      "host's time to make each launch, its plan's copy and two events. What a GEMM launches "
      "behind it for a bias or an activation is in its time and not in the number of launches "
      "(the thesis's form has none)",
      fmt::join(empty, ", "));
}

}  // namespace

Status thesis_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                   Report& report) {
  const std::string suffix =
      fmt::format(", {}{}", options.quick ? fmt::format("{} layers, ", kQuickLayers) : "", dtype);
  const auto operators = memory_bound_operators(dtype_bytes(device.info().compute));
  const std::string launches = "launches" + suffix, time = "launch time" + suffix;
  if (!options.wants(launches) && !options.wants(time) &&
      std::ranges::none_of(
          operators, [&](const MemoryBound& one) { return options.wants(one.name + suffix); }))
    return {};
  Workload workload{.preset = "bert-base",
                    .layers = options.quick ? kQuickLayers : 0,
                    .requests = {.name = {}, .lengths = {kTenants, std::vector<uint32_t>{kLength}}},
                    .on = hardware_of(device.info()),
                    .fidelity = backbone::Fidelity::kThesis,
                    .attention = options.attention};  // of the fused form beside it
  const Effort effort = options.quick ? Effort{.seconds = 0.2, .least = 5} : Effort{};
  ITIF_ASSIGN(const std::vector<ModeProfile> modes, profile_modes(workload, effort));
  const auto of_paper = [&](const std::optional<PaperRow>& row, const ModeProfile& mode) {
    return options.quick || !row ? std::nullopt : row->of(mode.mode);
  };

  report.note(
      "times of Tables 5.3 and 5.4 add up the calls of all tenants, which overlap and wait for "
      "each other where tenants run at once");
  if (workload.on.is_gpu) report.note(how_a_gpu_is_timed(modes));
  for (const MemoryBound& one : operators) {
    if (!options.wants(one.name + suffix)) continue;
    const uint32_t copies = short_repeats(workload.on);
    ITIF_ASSIGN(const auto bare, bare_copy(workload.on, one.bytes_of_layer, copies));
    const Samples copy = measure({[&] { bare->run(); }}, Effort{.seconds = 0.2})[0];
    const double limit = workload.spec().layers * copy.median() / copies * 1e-6;
    for (const ModeProfile& mode : modes) {
      const auto samples = mode.operators.find(one.operator_name);
      if (samples == mode.operators.end() || mode.mode == "itif fused") continue;  // cut otherwise
      report.add({.name = one.name + suffix,
                  .mode = mode.mode,
                  .value = samples->second.median() * 1e-6,
                  .unit = "ms",
                  .spread = samples->second.spread(),
                  .limit = limit,
                  .ratio = samples->second.median() * 1e-6 / limit,
                  .paper = of_paper(one.paper, mode)});
    }
  }
  for (const ModeProfile& mode : modes)
    if (options.wants(launches))
      report.add({.name = launches,
                  .mode = mode.mode,
                  .value = static_cast<double>(mode.launches),
                  .unit = "launches",
                  .paper = of_paper(kPaperLaunches, mode)});
  for (const ModeProfile& mode : modes)
    if (options.wants(time))
      report.add({.name = time,
                  .mode = mode.mode,
                  .value = mode.launch.median() * 1e-6,
                  .unit = "ms",
                  .spread = mode.launch.spread(),
                  .paper = of_paper(kPaperTime, mode)});
  return {};
}

}  // namespace itif::bench
