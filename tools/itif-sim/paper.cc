// itif-sim paper: the figures of TCB's section 6, and one of our own.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "experiments.h"
#include "measurement_text.h"
#include "measurements.h"
#include "plots.h"
#include "report/write_text.h"
#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

Result<std::vector<Experiment>> chosen(const std::vector<std::string>& figures, bool generates) {
  std::vector<Experiment> all = paper_experiments(generates);
  if (figures.empty()) return all;
  for (const std::string& figure : figures)
    if (std::ranges::none_of(
            all, [&](const Experiment& e) { return std::ranges::count(e.figures, figure) > 0; }))
      return fail(Code::kInvalidArgument,
                  fmt::format("no figure '{}'; choose from {}", figure, figure_names(generates)));
  std::erase_if(all, [&](const Experiment& e) {
    return std::ranges::none_of(
        figures, [&](const std::string& figure) { return std::ranges::count(e.figures, figure); });
  });
  return all;
}

std::string command_of(const PaperOptions& options) {
  std::string command = "itif-sim paper " + options.scenario;
  if (!options.figures.empty())
    command += fmt::format(" --figures {}", fmt::join(options.figures, ","));
  if (options.is_quick) command += " --quick";
  return command;
}

}  // namespace

Status paper_command(const PaperOptions& options) {
  ITIF_ASSIGN(const Scenario scenario, load_scenario(options.scenario));
  ITIF_TRY(check_one_group(scenario));
  ITIF_ASSIGN(const model::BackboneSpec spec, spec_of(scenario.model));
  ITIF_ASSIGN(const std::vector<Experiment> experiments, chosen(options.figures, generates(spec)));
  if (!options.out.empty()) ITIF_TRY(make_writable(options.out));
  std::vector<Measurement> all;
  for (const Experiment& experiment : experiments) {
    ITIF_ASSIGN(Measurement measurement, run_experiment(experiment, scenario, options.is_quick));
    if (!options.json) fmt::print("{}", to_tables(measurement));
    if (!options.out.empty()) ITIF_TRY(draw(to_figure(measurement), options.out));
    all.push_back(std::move(measurement));
  }
  const std::string json = to_json(scenario, all).dump(2) + "\n";
  if (options.json) fmt::print("{}", json);
  if (options.out.empty()) return {};
  ITIF_TRY(bench::write_text(options.out + "/figures.json", json));
  return bench::write_text(options.out + "/report.md",
                           to_markdown(command_of(options), scenario, all));
}

}  // namespace itif::sim
