// itif-bench overload: answers in time and latency of a whole appliance against the offered load.
// tools/bench-overload measures them, with processes and network namespaces of its own; this bench
// runs that program and reports its figures like the others.
#include <fmt/format.h>

#include "script.h"

namespace itif::bench {
namespace {

using nlohmann::json;

// The functions below throw json::exception if a row lacks a figure.

void add_latency(const json& row, const char* key, const std::string& mode, Report& report) {
  if (row.contains(key))
    report.add({.name = row.at("case"),
                .mode = mode,
                .value = row.at(key).get<double>() / 1e3,
                .unit = "ms"});
}

void add_goodput(const json& row, Report& report) {
  const std::string name = row.at("case");
  if (row.contains("in_time_per_s")) {  // the quiet tenant has none
    const double capacity = row.at("capacity_per_s"), in_time = row.at("value");
    report.add({.name = name,
                .mode = "in time",
                .value = in_time,
                .unit = "answers/s",
                .limit = capacity,
                .ratio = in_time / capacity});
    report.add(
        {.name = name, .mode = "offered", .value = row.at("sent_per_s"), .unit = "requests/s"});
    report.add(
        {.name = name, .mode = "repeated", .value = row.at("repeats_per_s"), .unit = "requests/s"});
    add_latency(row, "p99_us", "p99", report);
  }
}

void add_policy(const json& row, Report& report) {
  const std::string name = row.at("case");
  const double capacity = row.at("capacity_utility_per_s"), utility = row.at("value");
  report.add({.name = name,
              .mode = "utility",
              .value = utility,
              .unit = "utility/s",
              .limit = capacity,
              .ratio = utility / capacity});
  report.add(
      {.name = name, .mode = "most waiting", .value = row.at("most_waiting"), .unit = "requests"});
}

void add_overload_row(const json& row, Report& report) {
  const std::string mode = row.at("mode");
  if (mode == "goodput") add_goodput(row, report);
  if (mode == "utility") add_policy(row, report);
  add_latency(row, "quiet_p50_us", mode == "utility" ? "quiet p50 after it" : "quiet p50", report);
  add_latency(row, "quiet_p99_us", mode == "utility" ? "quiet p99 after it" : "quiet p99", report);
  add_latency(row, "sent_p50_us", "sent after the deadline, p50", report);
  add_latency(row, "sent_max_us", "sent after the deadline, at most", report);
  add_latency(row, "delay_p50_us", "received after the deadline, p50", report);
  add_latency(row, "delay_max_us", "received after the deadline, at most", report);
  if (const auto disturbed = row.at("disturbed").get<uint32_t>(); disturbed > 0)
    report.note(
        fmt::format("{}: {} of {} runs were disturbed: the hypervisor took CPU time, or the "
                    "clients could not keep up",
                    row.at("case").get<std::string>(), disturbed, row.at("runs").size()));
}

}  // namespace

Status bench_overload(const BenchOptions& options, Report& report) {
  report.add_device("bf16, a whole appliance");
  ITIF_ASSIGN(const json document, run_script("overload", options));
  if (document.is_null()) return {};
  try {
    for (const json& row : document.at("rows")) add_overload_row(row, report);
  } catch (const json::exception& error) {
    return fail(
        Code::kCorrupt,
        fmt::format("tools/bench-overload wrote figures that cannot be read: {}", error.what()));
  }
  report.note(
      "the goals are 90 % of the highest rate of answers in time at 2, 4 and 10 times the "
      "capacity, "
      "a quiet tenant's p99 of at most twice that alone, and refusals sent within 1 ms of the "
      "deadline");
  return {};
}

}  // namespace itif::bench
