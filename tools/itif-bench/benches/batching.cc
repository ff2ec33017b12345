// itif-bench batching: the thesis's Figures 5.2 to 5.4: latency and throughput of 2 to 64
// concurrent requests of 2 to 5 tenants by execution mode (execution.h); ALBERT-large, lengths up
// to 64. The limit is the GEMMs of the same requests alone.
//
// The thesis prints curves, not numbers. It states that ITIF is 1.63 to 2.40 times as fast as
// sequential execution, 1.87 on average.
#include <fmt/format.h>

#include <map>
#include <numeric>

#include "base/random.h"
#include "peers/modes.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

constexpr uint32_t kMaxLength = 64;
constexpr uint32_t kMaxRequests = 64;
constexpr uint32_t kQuickBatchingLayers = 2;
constexpr double kPaperMean = 1.87;
constexpr const char* kEffectOfBatches =
    "seq, multi-stream and mps pad the requests of a tenant to its longest. itif forms "
    "mini-batches of similar lengths and pads less; on a CPU whose cache holds the layers of one "
    "tenant and not of all, it does so for each tenant by itself. packed and seq-fused do not "
    "pad: one batch can then save only launches and idle cores, and a CPU has few of both. A "
    "tenant of multi-stream and mps has only its share of the cores, and tenants with longer "
    "requests end last";

// The lengths of `requests` requests, the same for every mode and number of tenants: evenly from 1
// to kMaxLength, so that their mean does not depend on the number, in a random but fixed order.
std::vector<uint32_t> lengths_of(uint32_t requests) {
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i < requests; ++i)
    lengths.push_back((kMaxLength * (2 * i + 1) + 2 * requests - 1) / (2 * requests));
  Random random(requests);
  for (uint32_t i = requests; i > 1; --i) std::swap(lengths[i - 1], lengths[random.below(i)]);
  return lengths;
}

Workload make_workload(const BenchOptions& options, uint32_t tenants, uint32_t requests,
                       const Hardware& on) {
  Workload workload{.preset = "albert-large",
                    .layers = options.quick ? kQuickBatchingLayers : 0,
                    .requests = {.name = {}, .lengths = {}},
                    .on = on,
                    .attention = options.attention};
  workload.requests.lengths.resize(tenants);
  const std::vector<uint32_t> lengths = lengths_of(requests);
  for (uint32_t i = 0; i < requests; ++i)
    workload.requests.lengths[i % tenants].push_back(lengths[i]);
  return workload;
}

// Errors: those of measure_modes.
Result<ModeSamples> run_case(const Workload& workload, const std::string& name, uint32_t requests,
                             const Effort& effort, Report& report) {
  ITIF_ASSIGN(ModeSamples modes, measure_modes(workload, effort));
  add_latencies(
      name, workload, modes, [](size_t) { return std::nullopt; }, report);
  for (const std::string_view mode : execution_modes(workload)) {
    const auto found = modes.by_mode.find(std::string(mode));
    if (found == modes.by_mode.end()) continue;
    const Samples& samples = found->second;
    const Samples& floor = modes.floors.at(found->first);
    report.add({.name = name,
                .mode = std::string(mode),
                .value = requests / (samples.median() * 1e-9),
                .unit = "requests/s",
                .spread = samples.spread(),
                .limit = requests / (floor.median() * 1e-9),
                .limit_spread = floor.spread(),
                .ratio = paired_ratios(floor, samples).median()});
  }
  return modes;
}

Status run_tenants(const BenchOptions& options, uint32_t tenants, const Hardware& on,
                   Report& report) {
  const Effort effort = options.quick ? Effort{.seconds = 0, .least = 1, .warm_ups = 1} : kLongRuns;
  const std::string model = options.quick
                                ? fmt::format("albert-large ({} layers)", kQuickBatchingLayers)
                                : "albert-large";
  std::map<std::string, std::vector<double>> speed_ups;  // by mode, itif or packed
  for (uint32_t requests = 2; requests <= kMaxRequests; requests *= 2) {
    if (requests < tenants) continue;
    const std::string name = fmt::format("{}, {} tenants, {} requests, {}", model, tenants,
                                         requests, compute_name(on.compute));
    if (!options.wants(name)) continue;
    ITIF_ASSIGN(const ModeSamples modes, run_case(make_workload(options, tenants, requests, on),
                                                  name, requests, effort, report));
    for (const char* mode : {"itif", "packed"})
      if (const auto speed_up = modes.speed_up(mode)) speed_ups[mode].push_back(speed_up->median());
  }
  for (const auto& [mode, all] : speed_ups)
    report.add(
        {.name = fmt::format("{}, {} tenants, {}", model, tenants, compute_name(on.compute)),
         .mode = fmt::format("{} / {}, mean", mode == "itif" ? "seq" : "seq-fused", mode),
         .value = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()),
         .unit = "times",
         .paper = options.quick || mode != "itif" ? std::nullopt : std::optional(kPaperMean)});
  return {};
}

}  // namespace

Status bench_batching(const BenchOptions& options, Report& report) {
  return on_each_device(options, report, [&](device::Device& device, const std::string&) -> Status {
    if (device.info().kind == "host") report.note(kEffectOfBatches);
    for (uint32_t tenants = 2; tenants <= 5; ++tenants)
      ITIF_TRY(run_tenants(options, tenants, hardware_of(device.info()), report));
    return {};
  });
}

}  // namespace itif::bench
