// itif-bench batching: the thesis's Figures 5.2 to 5.4: latency and throughput of 2 to 64
// concurrent requests of 2 to 5 tenants by execution mode; ALBERT-large, lengths up to 64. The
// limit is the GEMMs of the same requests alone.
//
// The thesis prints curves, not numbers. It states that ITIF is 1.63 to 2.40 times as fast as
// sequential execution, 1.87 on average.
#include <fmt/format.h>

#include "base/random.h"
#include "peers/modes.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

constexpr uint32_t kMaxLength = 64;
constexpr uint32_t kMaxRequests = 64;
constexpr uint32_t kQuickBatchingLayers = 2;
constexpr double kPaperMean = 1.87;

Workload make_workload(const BenchOptions& options, uint32_t tenants, uint32_t requests,
                       const Hardware& on) {
  Workload workload{.preset = "albert-large",
                    .layers = options.quick ? kQuickBatchingLayers : 0,
                    .requests = {.name = {}, .lengths = {}},
                    .on = on,
                    .fusion_mode = options.fusion_mode(),
                    .attention = options.attention};
  workload.requests.lengths.resize(tenants);
  Random random(requests);
  for (uint32_t i = 0; i < requests; ++i)
    workload.requests.lengths[i % tenants].push_back(
        1 + static_cast<uint32_t>(random.below(kMaxLength)));
  return workload;
}

// Errors: those of measure_modes.
Result<std::optional<double>> run_case(const Workload& workload, const std::string& name,
                                       uint32_t requests, const Effort& effort, Report& report) {
  ITIF_ASSIGN(const ModeSamples modes, measure_modes(workload, effort));
  ITIF_ASSIGN(const Samples floor, measure_floor(workload, effort));
  const double floor_ns = floor.median();
  for (const std::string& why : modes.missing)
    report.note(fmt::format("skipped {}, {}", name, why));
  for (const std::string_view mode : execution_modes()) {
    const auto found = modes.by_mode.find(std::string(mode));
    if (found == modes.by_mode.end()) continue;
    const Samples& samples = found->second;
    report.add({.name = name,
                .mode = std::string(mode),
                .value = samples.median() * 1e-6,
                .unit = "ms",
                .spread = samples.spread(),
                .limit = floor_ns * 1e-6,
                .ratio = samples.median() / floor_ns});
    report.add({.name = name,
                .mode = std::string(mode),
                .value = requests / (samples.median() * 1e-9),
                .unit = "requests/s",
                .spread = samples.spread(),
                .limit = requests / (floor_ns * 1e-9),
                .ratio = floor_ns / samples.median()});
  }
  return modes.speed_up();
}

Status run_tenants(const BenchOptions& options, uint32_t tenants, const Hardware& on,
                   Report& report) {
  const Effort effort = options.quick ? Effort{.seconds = 0, .least = 1, .warm_ups = 1} : kLongRuns;
  const std::string model = options.quick
                                ? fmt::format("albert-large ({} layers)", kQuickBatchingLayers)
                                : "albert-large";
  double sum = 0;
  uint32_t count = 0;
  for (uint32_t requests = 2; requests <= kMaxRequests; requests *= 2) {
    if (requests < tenants) continue;
    const std::string name = fmt::format("{}, {} tenants, {} requests, {}", model, tenants,
                                         requests, compute_name(on.compute));
    if (!options.wants(name)) continue;
    ITIF_ASSIGN(const auto speed_up, run_case(make_workload(options, tenants, requests, on), name,
                                              requests, effort, report));
    if (!speed_up) continue;
    sum += *speed_up;
    ++count;
  }
  if (count > 0)
    report.add({.name = fmt::format("{}, {} tenants, {}", model, tenants, compute_name(on.compute)),
                .mode = "seq / itif, mean",
                .value = sum / count,
                .unit = "times",
                .paper = options.quick ? std::nullopt : std::optional(kPaperMean)});
  return {};
}

}  // namespace

Status bench_batching(const BenchOptions& options, Report& report) {
  return on_each_device(options, report, [&](device::Device& device, const std::string&) -> Status {
    for (uint32_t tenants = 2; tenants <= 5; ++tenants)
      ITIF_TRY(run_tenants(options, tenants, hardware_of(device.info()), report));
    return {};
  });
}

}  // namespace itif::bench
