#include "time_line.h"

#include "report/time_line_figure.h"

namespace itif::sim {

bench::TimeLine time_line_of(const std::string& name, const std::string& title,
                             const Results& results) {
  const double interval_s = static_cast<double>(results.interval_ns) / 1e9;
  bench::TimeLine line = {.name = name, .title = title, .interval_s = interval_s};
  const auto rate = [interval_s](uint64_t count) {
    return static_cast<double>(count) / interval_s;
  };
  for (const GroupResults& group : results.groups) {
    bench::TimeLine::Series series = {.name = group.name};
    for (const GroupInterval& interval : group.intervals)
      series.intervals.push_back({.share_percent = interval.share_percent,
                                  .sent_per_s = rate(interval.sent),
                                  .answered_per_s = rate(interval.answered),
                                  .mean_ms = interval.mean_latency_ms(),
                                  .batch_requests = interval.mean_batch_requests()});
    line.series.push_back(std::move(series));
  }
  return line;
}

bench::Figure time_line_figure(const std::string& name, const std::string& title,
                               const Results& results) {
  return bench::time_line_figure(time_line_of(name, title, results), {});
}

}  // namespace itif::sim
