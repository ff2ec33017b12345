// itif-bench batching: the thesis's Figures 5.2 to 5.4: latency and throughput of 2 to 64 requests of 2
// to 5 tenants at once, ALBERT-large, lengths up to 64, by execution mode. The thesis prints curves, not
// numbers; it says that ITIF is 1.63 to 2.40 times as fast as sequential execution, 1.87 in the mean.
#include <fmt/format.h>

#include "base/random.h"
#include "benches.h"
#include "modes.h"

namespace itif::bench {
namespace {

constexpr uint32_t kMaxLength = 64;
constexpr uint32_t kMaxRequests = 64;
constexpr uint32_t kQuickLayers = 2;
constexpr double kPaperMean = 1.87;

Workload make_workload(const BenchOptions& options, uint32_t tenants, uint32_t requests,
                       const std::string& dtype) {
  Workload workload{.preset = "albert-large",
                    .layers = options.quick ? kQuickLayers : 0,
                    .requests = {.name = {}, .lengths = {}},
                    .dtype = dtype,
                    .threads = options.threads,
                    .fidelity = options.form()};
  workload.requests.lengths.resize(tenants);
  Random random(requests);
  for (uint32_t i = 0; i < requests; ++i)
    workload.requests.lengths[i % tenants].push_back(
        1 + static_cast<uint32_t>(random.below(kMaxLength)));
  return workload;
}

}  // namespace

Status bench_batching(const BenchOptions& options, Report& report) {
  report.set_device("host");
  const Effort effort =
      options.quick ? Effort{.seconds = 0, .least = 1} : Effort{.seconds = 1, .least = 3};
  const std::string model =
      options.quick ? fmt::format("albert-large ({} layers)", kQuickLayers) : "albert-large";
  for (const std::string& dtype : options.dtypes)
    for (uint32_t tenants = 2; tenants <= 5; ++tenants) {
      double sum = 0;
      uint32_t count = 0;
      for (uint32_t requests = 2; requests <= kMaxRequests; requests *= 2) {
        if (requests < tenants) continue;
        const std::string name =
            fmt::format("{}, {} tenants, {} requests, {}", model, tenants, requests, dtype);
        if (!options.wants(name)) continue;
        auto modes = measure_modes(make_workload(options, tenants, requests, dtype), effort);
        if (!modes && modes.error().code == Code::kUnsupported) {
          report.note(fmt::format("skipped {}: {}", dtype, modes.error().message));
          continue;
        }
        if (!modes) return std::unexpected(modes.error());
        for (const std::string& why : modes->missing)
          report.note(fmt::format("skipped {}, {}", name, why));
        for (const std::string_view mode : execution_modes()) {
          const auto found = modes->by_mode.find(std::string(mode));
          if (found == modes->by_mode.end()) continue;
          const Samples& samples = found->second;
          report.add({.name = name,
                      .mode = std::string(mode),
                      .value = samples.median() * 1e-6,
                      .unit = "ms",
                      .spread = samples.spread()});
          report.add({.name = name,
                      .mode = std::string(mode),
                      .value = requests / (samples.median() * 1e-9),
                      .unit = "requests/s",
                      .spread = samples.spread()});
        }
        if (const auto speed_up = modes->speed_up()) {
          sum += *speed_up;
          ++count;
        }
      }
      if (count > 0)
        report.add({.name = fmt::format("{}, {} tenants, {}", model, tenants, dtype),
                    .mode = "seq / itif",
                    .value = sum / count,
                    .unit = "times",
                    .paper = options.quick ? std::nullopt : std::optional(kPaperMean)});
    }
  return {};
}

}  // namespace itif::bench
