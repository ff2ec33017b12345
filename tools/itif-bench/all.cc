#include "all.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/own_program.h"
#include "child_process.h"
#include "report/gnuplot.h"
#include "report/summary.h"
#include "report/write_text.h"

namespace itif::bench {
namespace {

// The options that every bench has.
void add_common(const BenchOptions& options, bool runs_for_seconds,
                std::vector<std::string>& arguments) {
  if (options.quick) arguments.emplace_back("--quick");
  if (options.seconds > 0 && runs_for_seconds) {
    arguments.emplace_back("--seconds");
    arguments.push_back(fmt::format("{:g}", options.seconds));
  }
  for (const std::string& name : options.cases) {
    arguments.emplace_back("--case");
    arguments.push_back(name);
  }
}

std::vector<std::string> arguments_of(const BenchOptions& options, bool attends = true,
                                      bool chooses_fusion = true, bool runs_for_seconds = true) {
  std::vector<std::string> arguments;
  if (options.threads != 0) {
    arguments.emplace_back("--threads");
    arguments.push_back(std::to_string(options.threads));
  }
  if (options.device != "auto") {
    arguments.emplace_back("--device");
    arguments.push_back(options.device);
  }
  if (options.attention != "itif" && attends) {
    arguments.emplace_back("--attention");
    arguments.push_back(options.attention);
  }
  arguments.emplace_back("--dtype");
  arguments.push_back(fmt::format("{}", fmt::join(options.dtypes, ",")));
  if (options.fusion != "fused" && chooses_fusion) {
    arguments.emplace_back("--fidelity");
    arguments.push_back(options.fusion);
  }
  add_common(options, runs_for_seconds, arguments);
  return arguments;
}

// The command line as typed, without the directory.
std::string command_of(const BenchOptions& options, const AllOptions& all) {
  std::string command = "itif-bench all";
  for (const std::string& argument : arguments_of(options))
    command += argument.find(' ') == std::string::npos ? " " + argument : " '" + argument + "'";
  if (!all.only.empty()) command += fmt::format(" --only {}", fmt::join(all.only, ","));
  return command;
}

Results run_bench(const Bench& bench, const BenchOptions& options, const std::string& directory) {
  const SystemClock clock;
  const std::string path = fmt::format("{}/{}.json", directory, bench.name);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);  // from an earlier run
  std::vector<std::string> arguments;
  if (bench.is_script)
    add_common(options, bench.runs_for_seconds, arguments);
  else
    arguments = arguments_of(options, bench.attends, bench.chooses_fusion, bench.runs_for_seconds);
  arguments.insert(arguments.begin(), {bench.name, "--json", path});
  // A case may be another bench's.
  if (!options.cases.empty()) arguments.emplace_back("--skip-unknown");
  const uint64_t before_ns = clock.now_ns();
  arguments.insert(arguments.begin(), own_program());
  const std::string ended = run_child(std::move(arguments));
  auto read = read_results(path);
  Results results = read ? std::move(*read) : Results{};
  results.bench = bench.name;
  results.description = bench.description;
  results.seconds = static_cast<double>(clock.now_ns() - before_ns) * 1e-9;
  if (results.error.empty()) results.error = ended;
  if (results.error.empty() && !read) results.error = read.error().message;
  return results;
}

// Draws the figures. Returns why there are no pictures; empty: success. Errors: kPermission,
// kResourceExhausted.
Result<std::string> draw(const std::vector<Figure>& figures, const AllOptions& all) {
  for (const Figure& figure : figures) ITIF_TRY(write_figure(figure, all.directory));
  for (const Figure& figure : figures)
    if (Status drawn = draw_figure(figure, all.directory, all.gnuplot); !drawn)
      return fmt::format(
          "No plots: {}. Install gnuplot (Debian: gnuplot-nox); then `gnuplot NAME.gp` draws them.",
          drawn.error().message);
  return std::string();
}

}  // namespace

Result<uint32_t> run_all(std::span<const Bench> benches, const BenchOptions& options,
                         const AllOptions& all) {
  std::error_code error;
  std::filesystem::create_directories(all.directory, error);
  if (error)
    return fail(Code::kPermission,
                fmt::format("cannot make {}: {}", all.directory, error.message()));
  const std::string path = all.directory + "/report.md";
  // An error of the path shows now, not after the benches.
  ITIF_TRY(write_text(path, "# Benches of itif\n\nThey are still running.\n"));
  std::vector<Results> results;
  // Benches may run for hours.
  const auto write_incomplete = [&] {
    return write_text(path, markdown_report(command_of(options, all), results, {}, false,
                                            "**Incomplete**: the run has not ended, or was "
                                            "interrupted."));
  };
  uint32_t num_failed = 0;
  for (const Bench& bench : benches) {
    if (!all.only.empty() && std::ranges::find(all.only, bench.name) == all.only.end()) continue;
    if (bench.needs_root && all.only.empty() && ::geteuid() != 0) {
      fmt::print("itif-bench {}: not run: it needs root\n\n", bench.name);
      results.push_back({.bench = bench.name,
                         .description = bench.description,
                         .notes = {"not run: it needs root"}});
      continue;
    }
    results.push_back(run_bench(bench, options, all.directory));
    fmt::print("\n");
    ITIF_TRY(write_incomplete());
    if (results.back().error.empty()) continue;
    fmt::print(stderr, "itif-bench {} failed: {}\n", bench.name, results.back().error);
    ++num_failed;
  }
  const bool has_rows =
      std::ranges::any_of(results, [](const Results& one) { return !one.rows.empty(); });
  if (!options.cases.empty() && !has_rows && num_failed == 0)
    return fail(Code::kInvalidArgument,
                fmt::format("--case: no bench has a case named '{}': `itif-bench BENCH --case` "
                            "lists those of a bench when it has none of that name",
                            fmt::join(options.cases, "', '")));
  const std::vector<Figure> figures = make_figures(results);
  ITIF_ASSIGN(const std::string no_plots, draw(figures, all));
  if (!no_plots.empty()) fmt::print("{}\n", no_plots);

  ITIF_TRY(write_text(path, markdown_report(command_of(options, all), results, figures,
                                            no_plots.empty(), no_plots)));
  fmt::print("{} of {} benches, report in {}\n", results.size() - num_failed, results.size(), path);
  return num_failed;
}

}  // namespace itif::bench
