// Tables 5.3 and 5.4: BERT-base's forward pass, profiled by operator: four tenants with a request
// of 128 tokens each, by execution mode (execution.h).
//
// An operator's time is the sum over all tenants' calls, as a kernel profiler reports it. If
// tenants run concurrently, their calls overlap and wait for each other, which the sums include.
// Table 5.3 shows the same for the thesis's streams. On a host, launch time is the time of the same
// number of nearly empty launches.
// On a GPU each tenant's stream runs operators one by one (device/stream/metered_stream.h):
// operator time is time on the GPU, launch time is the time of the calls.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "peers/modes.h"
#include "workload/operator_rows.h"

namespace itif::bench {
namespace {

constexpr uint32_t kTableTenants = 4, kTableLength = 128;
constexpr uint32_t kQuickTableLayers = 2;

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
// Table 5.4: calls of cudaLaunchKernel, and their time in ms.
constexpr PaperRow kPaperLaunches{776, 776, 776, 517}, kPaperTime{2.834, 6.757, 5.324, 1.817};

// A row of Table 5.3: an operator (one or more calls), the bytes that a layer reads and writes for
// all tenants, and the thesis's time in ms.
struct MemoryBound {
  const char* name;
  const char* operator_name;
  size_t bytes_of_layer;
  std::optional<PaperRow> paper;
};

std::vector<MemoryBound> memory_bound_operators(size_t element) {
  const size_t rows = size_t{kTableTenants} * kTableLength;
  const size_t wide = rows * kHidden * element;
  return {{"softmax", "softmax", 2 * rows * kHeads * kTableLength * element,
           PaperRow{0.333, 0.790, 0.432, 0.356}},
          {"add-bias + LayerNorm", "residual_layer_norm", 2 * 3 * wide,
           PaperRow{0.291, 0.606, 0.325, 0.310}},
          {"add-bias + GELU", "bias_activation", 2 * rows * kIntermediate * element,
           PaperRow{0.245, 0.847, 0.349, 0.275}},
          {"transpose", "merge_heads", 2 * wide, PaperRow{0.209, 0.519, 0.289, 0.220}},
          {"bias + transpose of Q/K/V", "split_heads", 6 * wide, std::nullopt}};
}

// Samples of the runs of one mode.
struct ModeProfile {
  std::string mode;
  std::map<std::string, Samples> operators = {};
  Samples launch = {}, empty = {};
  uint64_t launches = 0;  // per run

  void add(const RunProfile& run) {
    for (const auto& [name, ns] : run.operator_ns) operators[name].add(ns);
    launch.add(run.launch_ns);
    empty.add(run.empty_ns);
    launches = run.launches;
  }
  double largest_spread() const {
    double largest = 0;
    for (const auto& [name, samples] : operators) largest = std::max(largest, samples.spread());
    return largest;
  }
};

Status add_runs(Execution& execution, const Effort& effort, const Clock& clock, ModeProfile& all) {
  const uint64_t start_ns = clock.now_ns();
  for (uint32_t i = 0; i < effort.most; ++i) {
    if (i >= effort.least && static_cast<double>(clock.now_ns() - start_ns) * 1e-9 > effort.seconds)
      break;
    ITIF_ASSIGN(const RunProfile run, execution.profile());
    all.add(run);
  }
  return {};
}

// Compares results with `expected`, without and with profiling. The first mode sets `expected`.
Result<ModeProfile> profile(std::string_view mode, const Workload& workload, const Effort& effort,
                            std::vector<float>& expected) {
  static const SystemClock clock;
  ITIF_ASSIGN(const auto execution, make_execution(mode, workload));
  ITIF_ASSIGN(std::vector<float> states, execution->last_states());
  if (expected.empty())
    expected = std::move(states);
  else
    ITIF_TRY(check_same(mode, states, expected, workload));
  ModeProfile all{.mode = std::string(mode)};
  for (int warm_up = 0; warm_up < 2; ++warm_up) ITIF_TRY(execution->profile());
  ITIF_ASSIGN(states, execution->last_states());
  ITIF_TRY(check_same(all.mode, states, expected, workload));
  ITIF_TRY(add_runs(*execution, effort, clock, all));
  for (uint32_t i = 0; i < effort.reruns && all.largest_spread() > kMaxSpread; ++i) {
    ModeProfile again{.mode = all.mode};
    ITIF_TRY(add_runs(*execution, effort, clock, again));
    if (again.largest_spread() < all.largest_spread()) all = std::move(again);
  }
  return all;
}

Result<std::vector<ModeProfile>> profile_modes(const Workload& workload, const Effort& effort) {
  std::vector<ModeProfile> all;
  std::vector<float> expected;
  for (const std::string_view mode : execution_modes(workload)) {
    if (mode == "seq-fused") continue;
    ITIF_ASSIGN(ModeProfile one, profile(mode, workload, effort, expected));
    all.push_back(std::move(one));
  }
  return all;
}

constexpr const char* kLaunchesOfAHost =
    "in Table 5.4, a launch on a CPU is a call of an operator: its arguments are checked and its "
    "rows divided among the threads, which start and end together. The launch time is the time of "
    "as many calls that compute almost nothing. No driver is involved, so a launch costs a "
    "fraction of cudaLaunchKernel's time, and fewer launches save little. Tenants share a pass, "
    "and "
    "with it launches, only as long as their tokens fit in the cores' caches";

std::string how_a_gpu_is_timed(const std::vector<ModeProfile>& modes) {
  std::vector<std::string> empty;
  for (const ModeProfile& mode : modes)
    empty.push_back(fmt::format("{} {:.1f}", mode.mode,
                                mode.empty.median() * 1e-3 / static_cast<double>(mode.launches)));
  return fmt::format(
      "for Tables 5.3 and 5.4 each operator is launched and waited for separately, without CUDA "
      "graphs. Table 5.3 has times on the GPU, from an event before the launch; a nearly empty "
      "launch takes, in us: {}. Table 5.4 has the host's time for each launch, including the copy "
      "of its plan and two events. Kernels that a GEMM launches after itself for a bias or an "
      "activation count in its time, not in the number of launches (fusion mode \"thesis\" has "
      "none)",
      fmt::join(empty, ", "));
}

}  // namespace

Status thesis_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                   Report& report) {
  const std::string suffix = fmt::format(
      ", {}{}", options.quick ? fmt::format("{} layers, ", kQuickTableLayers) : "", dtype);
  const auto operators = memory_bound_operators(dtype_bytes(device.info().compute.activations));
  const std::string launches = "launches" + suffix, time = "launch time" + suffix;
  std::vector<std::string> names = {launches, time};
  for (const MemoryBound& one : operators) names.push_back(one.name + suffix);
  if (!options.wants_any(names)) return {};
  Workload workload{
      .preset = "bert-base",
      .layers = options.quick ? kQuickTableLayers : 0,
      .requests = {.name = {}, .lengths = {kTableTenants, std::vector<uint32_t>{kTableLength}}},
      .on = hardware_of(device.info()),
      .attention = options.attention};  // used only by packed
  const Effort effort = options.quick ? Effort{.seconds = 0.2, .least = 5} : Effort{.reruns = 2};
  ITIF_ASSIGN(const std::vector<ModeProfile> modes, profile_modes(workload, effort));
  const auto of_paper = [&](const std::optional<PaperRow>& row, const ModeProfile& mode) {
    return options.quick || !row ? std::nullopt : row->of(mode.mode);
  };

  report.note(
      "times of Tables 5.3 and 5.4 are sums over the calls of all tenants; if tenants run "
      "concurrently, calls overlap and wait for each other");
  report.note(workload.on.is_gpu ? how_a_gpu_is_timed(modes) : kLaunchesOfAHost);
  for (const MemoryBound& one : operators) {
    if (!options.wants(one.name + suffix)) continue;
    const uint32_t copies = short_repeats(workload.on);
    ITIF_ASSIGN(const auto bare, bare_copy(workload.on, one.bytes_of_layer, copies));
    const Samples copy = measure({[&] { bare->run(); }}, Effort{.seconds = 0.2, .reruns = 2})[0];
    const double limit = workload.spec().layers * copy.median() / copies * 1e-6;
    for (const ModeProfile& mode : modes) {
      const auto samples = mode.operators.find(one.operator_name);
      if (samples == mode.operators.end() || mode.mode == "packed") continue;  // others are fused
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
