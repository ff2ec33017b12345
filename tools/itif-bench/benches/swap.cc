// itif-bench swap: latency of steady tenants of a whole appliance while other tenants change and
// the share of their group changes. tools/bench-swap measures it, with processes and network
// namespaces of its own; this bench runs that program and reports its figures like the others.
#include <fmt/format.h>

#include "script.h"

namespace itif::bench {
namespace {

using nlohmann::json;

// Errors: json::exception.
void add_swap_row(const json& row, Report& report) {
  const std::string name = row.at("case"), mode = row.at("mode");
  report.add({.name = name, .mode = mode, .value = row.at("value"), .unit = "p99 ms"});
  report.add({.name = name,
              .mode = mode,
              .value = row.at("p50_us").at("median").get<double>() / 1e3,
              .unit = "p50 ms"});
  report.add({.name = name,
              .mode = mode,
              .value = row.at("unanswered").at("median"),
              .unit = "unanswered"});
  if (row.contains("p99_ratio"))
    report.add({.name = name,
                .mode = fmt::format("p99, {} / without changes", mode),
                .value = row.at("p99_ratio"),
                .unit = "times"});
  const json& runs = row.at("runs");
  for (const auto& [change, seconds] : runs.back().at("change_s").items())
    report.add({.name = name,
                .mode = change,
                .value = seconds.get<double>() * 1e3,
                .unit = "ms of a change"});
  if (const uint32_t disturbed = row.value("disturbed", 0u); disturbed > 0)
    report.note(fmt::format("{}, {}: the hypervisor took CPU time in {} of {} runs", name, mode,
                            disturbed, runs.size()));
}

}  // namespace

Status bench_swap(const BenchOptions& options, Report& report) {
  report.add_device("bf16, a whole appliance");
  ITIF_ASSIGN(const json document, run_script("swap", options));
  if (document.is_null()) return {};
  try {
    for (const json& row : document.at("rows")) add_swap_row(row, report);
  } catch (const json::exception& error) {
    return fail(
        Code::kCorrupt,
        fmt::format("tools/bench-swap wrote figures that cannot be read: {}", error.what()));
  }
  report.note("the goal is a p99 with changes of at most 1.2 times that without");
  return {};
}

}  // namespace itif::bench
