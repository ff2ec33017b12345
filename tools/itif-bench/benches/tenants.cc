// itif-bench tenants: the thesis's Table 5.2, continued to 64 tenants: latency of one request per
// tenant, all together, by execution mode (execution.h). Figure 5.1 is its row of four tenants.
//
// "decoding" is the decoder alone over given encoder outputs, its first 8 steps with beam 4; the
// thesis does not state its number of steps. Above the thesis's 5 tenants, backbones have a third
// of their layers. With --quick all have two layers and a decoder takes 4 steps. The names of the
// rows say so.
//
// A decoder keeps its whole vocabulary. With a smaller one, a tenant's weights of a step could fit
// in a cache, and sequential execution would reuse them from step to step; with a whole model it
// cannot.
#include <fmt/format.h>

#include "peers/modes.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

struct Model {
  const char* name;
  const char* preset;
  // Tokens of a request; image: patches and class token; decoder: tokens of the source.
  uint32_t length;
  uint32_t layers;  // of the preset
  uint32_t steps;   // 0: an encoder
  // Table 5.2, ms on an RTX A5000 in the order of execution_modes(), for 2 to 5 tenants.
  double paper[4][4];
};
constexpr Model kModels[] = {
    {"bert-base",
     "bert-base",
     128,
     12,
     0,
     {{6.90, 6.06, 5.14, 4.94},
      {9.95, 7.56, 7.03, 6.87},
      {13.51, 10.68, 9.68, 8.94},
      {16.22, 12.32, 12.43, 11.01}}},
    {"albert-large",
     "albert-large",
     128,
     24,
     0,
     {{17.04, 14.61, 14.2, 7.82},
      {24.23, 19.62, 20.22, 10.63},
      {33.98, 24.72, 26.43, 14.14},
      {41.26, 30.12, 33.5, 22.05}}},
    {"vit-base",
     "vit-base",
     197,
     12,
     0,
     {{9.92, 8.26, 9.28, 5.05},
      {14.19, 11.92, 13.71, 7.08},
      {19.21, 16.21, 18.28, 11.21},
      {23.41, 18.21, 22.55, 15.36}}},
    {"decoding",
     "marian",
     128,
     6,
     8,
     {{46.10, 32.74, 30.06, 24.38},
      {70.13, 57.13, 50.88, 40.48},
      {94.42, 82.32, 78.31, 54.21},
      {117.77, 101.82, 95.32, 70.30}}},
};
constexpr const char* kEffectOnHost =
    "on a CPU, the GEMMs of a single request of 64 tokens or more already keep all cores busy, and "
    "a launch costs microseconds. One instance for all tenants can save neither idle time nor "
    "launches there, so its times are close to those of sequential tenants. The bench few-tokens "
    "has the loads where it saves both";
constexpr uint32_t kTenantCounts[] = {2, 3, 4, 5, 8, 16, 32, 64};
constexpr uint32_t kQuickTenantLayers = 2;
constexpr uint32_t kQuickSteps = 4;

bool is_in_paper(size_t row) {
  return row < std::size(kModels[0].paper);
}

// Layers of the model in a row of the table; rows beyond the thesis's use a third of the layers.
uint32_t layers_of(const Model& model, size_t row, bool quick) {
  return quick ? kQuickTenantLayers : is_in_paper(row) ? model.layers : model.layers / 3;
}
uint32_t steps_of(const Model& model, bool quick) {
  return quick ? std::min(model.steps, kQuickSteps) : model.steps;
}

std::optional<double> of_paper(const Model& model, size_t row, size_t mode, bool quick) {
  if (quick || !is_in_paper(row) || mode >= std::size(model.paper[row])) return std::nullopt;
  return model.paper[row][mode];
}

std::string describe(const Model& model, size_t row, bool quick) {
  std::vector<std::string> parts;
  const uint32_t layers = layers_of(model, row, quick), steps = steps_of(model, quick);
  if (layers != model.layers) parts.push_back(fmt::format("{} layers", layers));
  if (steps != 0) parts.push_back(fmt::format("{} steps", steps));
  return parts.empty() ? model.name : fmt::format("{} ({})", model.name, fmt::join(parts, ", "));
}

Workload make_workload(const BenchOptions& options, const Model& model, size_t row,
                       const Hardware& on) {
  Workload workload{.preset = model.preset,
                    .layers = layers_of(model, row, options.quick),
                    .steps = steps_of(model, options.quick),
                    .requests = {.name = {}, .lengths = {}},
                    .on = on,
                    .attention = options.attention};
  workload.requests.lengths.assign(kTenantCounts[row], {model.length});
  return workload;
}

Status run_case(const BenchOptions& options, const Model& model, size_t row, const Hardware& on,
                Report& report) {
  const std::string name = fmt::format("{}, {} tenants, {}", describe(model, row, options.quick),
                                       kTenantCounts[row], compute_name(on.compute));
  if (!options.wants_any({name, model.name})) return {};
  const Workload workload = make_workload(options, model, row, on);
  if (workload.decodes() && options.attention != "itif") {
    report.note(
        fmt::format("skipped {}: only itif's kernels support a decoder's cached attention", name));
    return {};
  }
  const Effort effort =
      options.quick ? Effort{.seconds = 0.3, .least = 1, .warm_ups = 1} : kLongRuns;
  const auto modes = measure_modes(workload, effort);
  if (!modes && modes.error().code == Code::kResourceExhausted) {
    report.note(fmt::format("skipped {}: {}", name, modes.error().message));
    return {};
  }
  if (!modes) return std::unexpected(modes.error());
  const auto paper = [&](size_t mode) { return of_paper(model, row, mode, options.quick); };
  add_latencies(name, workload, *modes, paper, report);
  const auto seq = paper(0), itif = paper(3);
  add_speed_ups(name, *modes, seq ? std::optional(*seq / *itif) : std::nullopt, report);
  return {};
}

}  // namespace

Status bench_tenants(const BenchOptions& options, Report& report) {
  return on_each_device(options, report, [&](device::Device& device, const std::string&) -> Status {
    if (device.info().kind == "host") report.note(kEffectOnHost);
    report.note(
        "the steps of decoding are not planned: its itif is one instance for all tenants, and all "
        "its modes have our fused operators");
    if (device.info().kind == "cuda")
      report.note(
          "without an MPS daemon the processes of mode mps take turns on the GPU; set "
          "ITIF_BENCH_MPS_PIPE_DIRECTORY to a daemon's pipe directory to use it for mode mps only");
    for (const Model& model : kModels)
      for (size_t row = 0; row < std::size(kTenantCounts); ++row)
        ITIF_TRY(run_case(options, model, row, hardware_of(device.info()), report));
    return {};
  });
}

}  // namespace itif::bench
