// itif-bench tenants: the thesis's Table 5.2 (latency of a request of each tenant at once, by execution
// mode), continued to 64 tenants. Its Figure 5.1 is the row of four tenants.
//
// With --quick backbones have two layers, so that every row is there in a short run; the rows say so.
#include <fmt/format.h>

#include "benches.h"
#include "modes.h"

namespace itif::bench {
namespace {

struct Model {
  const char* preset;
  uint32_t length;
  // Table 5.2, ms on an RTX A5000 in the order of kModesOfTable, for 2 to 5 tenants.
  double paper[4][4];
};
constexpr const char* kModesOfTable[] = {"seq", "multi-stream", "mps", "itif"};
constexpr Model kModels[] = {
    {"bert-base",
     128,
     {{6.90, 6.06, 5.14, 4.94},
      {9.95, 7.56, 7.03, 6.87},
      {13.51, 10.68, 9.68, 8.94},
      {16.22, 12.32, 12.43, 11.01}}},
    {"albert-large",
     128,
     {{17.04, 14.61, 14.2, 7.82},
      {24.23, 19.62, 20.22, 10.63},
      {33.98, 24.72, 26.43, 14.14},
      {41.26, 30.12, 33.5, 22.05}}},
};
constexpr uint32_t kTenants[] = {2, 3, 4, 5, 8, 16, 32, 64};
constexpr uint32_t kQuickLayers = 2;

std::optional<double> of_paper(const Model& model, size_t row, size_t mode, bool quick) {
  if (quick || row >= std::size(model.paper)) return std::nullopt;
  return model.paper[row][mode];
}

Status run_case(const BenchOptions& options, const Model& model, size_t row,
                const std::string& dtype, Report& report) {
  const uint32_t tenants = kTenants[row];
  const std::string name =
      fmt::format("{}{}, {} tenants, {}", model.preset,
                  options.quick ? fmt::format(" ({} layers)", kQuickLayers) : "", tenants, dtype);
  if (!options.wants(name) && !options.wants(model.preset)) return {};
  Workload workload{.preset = model.preset,
                    .layers = options.quick ? kQuickLayers : 0,
                    .requests = {.name = name, .lengths = {}},
                    .dtype = dtype,
                    .threads = options.threads};
  workload.requests.lengths.assign(tenants, {model.length});
  const Effort effort =
      options.quick ? Effort{.seconds = 0, .least = 1} : Effort{.seconds = 1, .least = 3};
  auto modes = measure_modes(workload, effort);
  if (!modes && (modes.error().code == Code::kUnsupported ||
                 modes.error().code == Code::kResourceExhausted)) {
    report.note(fmt::format("skipped {}: {}", name, modes.error().message));
    return {};
  }
  if (!modes) return std::unexpected(modes.error());
  const double floor_ns = measure_floor(workload, effort).median();
  for (size_t mode = 0; mode < std::size(kModesOfTable); ++mode) {
    const Samples& samples = (*modes)[kModesOfTable[mode]];
    report.add({.name = name,
                .mode = kModesOfTable[mode],
                .value = samples.median() * 1e-6,
                .unit = "ms",
                .spread = samples.spread(),
                .limit = floor_ns * 1e-6,
                .ratio = samples.median() / floor_ns,
                .paper = of_paper(model, row, mode, options.quick)});
  }
  const auto seq = of_paper(model, row, 0, options.quick),
             itif = of_paper(model, row, 3, options.quick);
  report.add({.name = name,
              .mode = "seq / itif",
              .value = (*modes)["seq"].median() / (*modes)["itif"].median(),
              .unit = "times",
              .limit = {},
              .ratio = {},
              .paper = seq ? std::optional(*seq / *itif) : std::nullopt});
  return {};
}

}  // namespace

Status bench_tenants(const BenchOptions& options, Report& report) {
  report.set_device("host");
  for (const std::string& dtype : options.dtypes)
    for (const Model& model : kModels)
      for (size_t row = 0; row < std::size(kTenants); ++row)
        ITIF_TRY(run_case(options, model, row, dtype, report));
  return {};
}

}  // namespace itif::bench
