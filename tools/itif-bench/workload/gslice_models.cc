#include "workload/gslice_models.h"

#include <ranges>

namespace itif::bench {

Status on_best_type(const BenchOptions& options, Report& report, const OnDevice& run) {
  for (const std::string& dtype : options.dtypes | std::views::reverse) {
    BenchOptions one = options;
    one.dtypes = {dtype};
    bool has_run = false;
    ITIF_TRY(on_each_device(one, report, [&](device::Device& device, const std::string& type) {
      has_run = true;
      return run(device, type);
    }));
    if (has_run) return {};
  }
  return {};
}

Result<std::vector<GroupResult>> measure_groups(ServedGroups& groups,
                                                const std::vector<std::string>& models,
                                                double warm_up_s, double seconds) {
  ITIF_TRY(groups.warm_up(static_cast<uint64_t>(warm_up_s * 1e9)));
  groups.reset();
  std::vector<GroupResult> results(models.size());
  for (uint32_t part = 0; part < kRunParts; ++part) {
    std::vector<uint64_t> before(models.size());
    for (size_t i = 0; i < models.size(); ++i) before[i] = groups.load(i).figures().answered;
    const uint64_t from_ns = kSystemClock.now_ns();
    groups.run_until_each_answers(static_cast<uint64_t>(seconds * 1e9 / kRunParts));
    const double took_s = static_cast<double>(kSystemClock.now_ns() - from_ns) / 1e9;
    for (size_t i = 0; i < models.size(); ++i)
      results[i].per_s.add(static_cast<double>(groups.load(i).figures().answered - before[i]) /
                           took_s);
  }
  ITIF_TRY(groups.check());
  for (size_t i = 0; i < models.size(); ++i) {
    const LoadFigures& figures = groups.load(i).figures();
    const auto answered = static_cast<double>(std::max<uint64_t>(figures.answered, 1));
    results[i].model = models[i];
    results[i].p50_ms = static_cast<double>(figures.latency_ns.percentile(50)) / 1e6;
    results[i].p99_ms = static_cast<double>(figures.latency_ns.percentile(99)) / 1e6;
    results[i].execute_ms = static_cast<double>(figures.execute_ns) / answered / 1e6;
    results[i].late_percent = 100 * static_cast<double>(figures.late) / answered;
  }
  return results;
}

}  // namespace itif::bench
