#include "metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace itif::sim {
namespace {

double p_ms(const Results& r, double percent) {
  return static_cast<double>(r.total().latency_ns.percentile(percent)) / 1e6;
}
double per(uint64_t sum, uint64_t count) {
  return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
}

constexpr Metric kMetrics[] = {
    {"throughput", "answers per second",
     [](const Results& r) { return r.per_second(static_cast<double>(r.total().answered)); }},
    {"goodput", "answers in time per second",
     [](const Results& r) { return r.per_second(static_cast<double>(r.total().in_time)); }},
    {"utility", "utility per second",
     [](const Results& r) { return r.per_second(r.total().utility); }},
    {"in_time", "% of requests answered in time",
     [](const Results& r) {
       const TenantResults all = r.total();
       return all.sent ? 100.0 * static_cast<double>(all.in_time) / static_cast<double>(all.sent)
                       : 0.0;
     }},
    {"least_in_time", "% answered in time of the worst-served tenant",
     [](const Results& r) {
       double least = 100;
       for (const TenantResults& t : r.tenants)
         if (t.sent > 0) least = std::min(least, 100 * per(t.in_time, t.sent));
       return least;
     }},
    {"p50", "median latency, ms", [](const Results& r) { return p_ms(r, 50); }},
    {"p99", "99th percentile of latency, ms", [](const Results& r) { return p_ms(r, 99); }},
    {"use", "% of time in which the device is busy",
     [](const Results& r) { return 100 * r.device_use(); }},
    {"padding", "% of rows that are padding", [](const Results& r) { return 100 * r.padding(); }},
    {"batch", "requests per batch", [](const Results& r) { return r.batch_size(); }},
    {"batch_ms", "ms per batch", [](const Results& r) { return per(r.busy_ns, r.batches) / 1e6; }},
    {"row_us", "us per computed row",
     [](const Results& r) { return per(r.busy_ns, r.rows) / 1e3; }},
    {"answer_ms", "ms per answer",
     [](const Results& r) {
       const auto answered = static_cast<double>(r.total().answered);
       return answered > 0 ? 1e3 * r.seconds() / answered : 0;
     }},
    {"output_rate", "generated tokens per second",
     [](const Results& r) { return r.per_second(static_cast<double>(r.total().output_tokens)); }},
    {"mean_tokens", "tokens of an answered request",
     [](const Results& r) { return per(r.total().tokens, r.total().answered); }},
};

}  // namespace

std::span<const Metric> metrics() noexcept {
  return kMetrics;
}

std::string metric_names() {
  std::string names;
  for (const Metric& metric : kMetrics)
    names += (names.empty() ? "" : ", ") + std::string(metric.name);
  return names;
}

Result<const Metric*> find_metric(std::string_view name) {
  const auto found = std::ranges::find(kMetrics, name, &Metric::name);
  if (found == std::end(kMetrics))
    return fail(Code::kInvalidArgument,
                fmt::format("no metric '{}'; choose from {}", name, metric_names()));
  return found;
}

}  // namespace itif::sim
