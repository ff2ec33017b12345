// itif-bench swap: latency of steady tenants of a whole appliance while other tenants change and
// the share of their group changes. tools/bench-swap measures it, with processes and network
// namespaces of its own; this bench runs that program and reports its figures like the others.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/own_program.h"
#include "benches.h"
#include "child_process.h"

namespace itif::bench {
namespace {

using nlohmann::json;

// The program in the source tree whose build holds this one. Errors: kNotFound.
Result<std::string> find_swap_script(const BenchOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!options.script.empty()) {
    if (fs::is_regular_file(options.script, error)) return options.script;
    return fail(Code::kNotFound,
                fmt::format("--script: {} is not a readable file", options.script));
  }
  const fs::path own = own_program();
  for (fs::path folder = own.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    const fs::path script = folder / "tools/bench-swap";
    if (fs::is_regular_file(script, error)) return script.string();
    if (folder == folder.root_path()) break;
  }
  return fail(Code::kNotFound,
              fmt::format("tools/bench-swap was not found above {}: it is part of the source tree, "
                          "with the appliance that it starts. Run itif-bench from a build there, "
                          "or name the program with --script",
                          own.parent_path().string()));
}

std::vector<std::string> swap_arguments(const BenchOptions& options) {
  std::vector<std::string> arguments;
  if (options.quick) arguments.insert(arguments.end(), {"--rounds", "1", "--seconds", "3"});
  if (options.seconds > 0) {
    const long whole_s = std::max(1l, std::lround(options.seconds));
    arguments.insert(arguments.end(), {"--seconds", std::to_string(whole_s)});
  }
  if (options.skip_unknown) arguments.emplace_back("--skip-unknown");
  for (const std::string& name : options.cases) arguments.insert(arguments.end(), {"--case", name});
  arguments.insert(arguments.end(), options.more.begin(), options.more.end());
  return arguments;
}

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
  ITIF_ASSIGN(const std::string script, find_swap_script(options));
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("itif-bench-swap-{}.json", ::getpid()))
          .string();
  std::vector<std::string> arguments = swap_arguments(options);
  arguments.insert(arguments.begin(), {script, "--end-with-parent", "--json", path});
  report.add_device("bf16, a whole appliance");
  std::fflush(stdout);  // before the output of the program
  const std::string ended = run_child(std::move(arguments));
  std::ifstream file(path);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (!ended.empty()) return fail(Code::kInternal, fmt::format("{}: {}", script, ended));
  if (!file) return {};  // no case has the wanted name
  try {
    const json document = json::parse(file);
    for (const json& row : document.at("rows")) add_swap_row(row, report);
  } catch (const json::exception& error) {
    return fail(Code::kCorrupt,
                fmt::format("{} wrote figures that cannot be read: {}", script, error.what()));
  }
  report.note("the goal is a p99 with changes of at most 1.2 times that without");
  return {};
}

}  // namespace itif::bench
