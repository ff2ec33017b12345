// itif-sim: runs the appliance on a simulated device, in virtual time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/log.h"
#include "base/units.h"
#include "commands.h"
#include "device/sim/machine.h"
#include "experiments.h"
#include "metrics.h"
#include "scratch.h"
#include "specs.h"

namespace {

using namespace itif;

constexpr int kFailed = 1;  // exit status of wrong arguments and of failed commands

constexpr const char* kScenarioHelp = "scenario file, such as conf/sim/example.cfg";

void add_output(CLI::App* command, sim::Output& output) {
  command->add_flag("--json", output.json, "print one JSON object instead of a table");
  command->add_option("--plot", output.plot, "draw curves into this directory (gnuplot)");
}

// CLI::Range accepts nan.
CLI::Validator number_between(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        double value = NAN;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        return is_number && value >= least && value <= most
                   ? std::string()
                   : fmt::format("{} is not a number from {:g} to {:g}", text, least, most);
      },
      fmt::format("{:g} to {:g}", least, most));
}

std::string check_duration(const std::string& text) {
  const auto parsed = parse_duration_ns(text);
  return parsed ? "" : parsed.error().message;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Runs the appliance on a simulated device, in virtual time, from a seed.\n"
      "Machines: " +
      device::machine_names() + "; or a group's profile. docs/simulation.md explains it."};
  app.require_subcommand(1);
  const sim::Scratch scratch;
  Status status;

  sim::RunOptions run;
  auto* run_app = app.add_subcommand("run", "run a scenario");
  run_app->add_option("SCENARIO", run.scenario, kScenarioHelp)->required();
  run_app->add_option("--log", run.log, "write every event to this file");
  add_output(run_app, run.output);
  run_app->callback([&] { status = sim::run_command(run); });

  sim::SweepOptions sweep;
  sweep.metrics = {"throughput", "utility", "in_time", "p99"};
  auto* sweep_app = app.add_subcommand("sweep", "run a scenario at several values of parameters");
  sweep_app->add_option("SCENARIO", sweep.scenario, kScenarioHelp)->required();
  sweep_app
      ->add_option("--vary", sweep.vary,
                   "KEY=VALUE,VALUE,…: a key of the file, or num_tenants: the x axis; given again: "
                   "one curve per value. Values with commas: KEY='VALUE;VALUE'")
      ->required()
      ->expected(1, 2)
      ->allow_extra_args(false)
      ->take_all();
  sweep_app->add_option("--metrics", sweep.metrics, "any of " + sim::metric_names())
      ->delimiter(',');
  add_output(sweep_app, sweep.output);
  sweep_app->callback([&] { status = sim::sweep_command(sweep); });

  sim::PlanOptions plan;
  std::string p99;
  auto* plan_app = app.add_subcommand(
      "plan", "find the configuration that serves a scenario with the least of the device");
  plan_app->add_option("SCENARIO", plan.scenario, kScenarioHelp)->required();
  plan_app->add_option("--in-time", plan.share_in_time, "share of requests to answer in time")
      ->check(number_between(0, 1))
      ->capture_default_str();
  plan_app->add_option("--p99", p99, "highest 99th percentile of latency, as in 25ms")
      ->check(check_duration);
  plan_app->add_option_function<std::string>(
      "--planners", [&](const std::string& text) { plan.planners = sim::split_specs(text); },
      "planners to try (default: the scenario's); separated by ; if they have settings");
  plan_app->add_option_function<std::string>(
      "--schedulers", [&](const std::string& text) { plan.schedulers = sim::split_specs(text); },
      "batch policies to try, separated in the same way (default: the scenario's)");
  plan_app->add_option("--dtypes", plan.dtypes, "types to try (default: the scenario's)")
      ->delimiter(',');
  plan_app
      ->add_option("--max-requests", plan.max_requests,
                   "largest numbers of requests in a batch to try (default: the scenario's)")
      ->delimiter(',');
  plan_app
      ->add_option("--shares", plan.shares,
                   "shares of the device to try, in percent (default: the scenario's)")
      ->delimiter(',')
      ->check(number_between(1, 100));
  add_output(plan_app, plan.output);
  plan_app->callback([&] {
    if (!p99.empty()) plan.p99_ns = *parse_duration_ns(p99);
    status = sim::plan_command(plan);
  });

  sim::ValidateOptions validate;
  auto* validate_app =
      app.add_subcommand("validate", "compare a scenario with a recorded run of the real device");
  validate_app->add_option("SCENARIO", validate.scenario, kScenarioHelp)->required();
  validate_app->add_option("RECORD", validate.record, "itif-loadgen's --json")->required();
  validate_app
      ->add_option("--tolerance", validate.tolerance,
                   "largest accepted difference of a figure, relative to the recorded one")
      ->check(number_between(0, 10))
      ->capture_default_str();
  add_output(validate_app, validate.output);
  validate_app->callback([&] { status = sim::validate_command(validate); });

  sim::PaperOptions paper;
  auto* paper_app =
      app.add_subcommand("paper", "reproduce the figures of TCB, beside the paper's statements");
  paper_app->add_option("SCENARIO", paper.scenario, "conf/sim/tcb.cfg, or conf/sim/tcb-decoder.cfg")
      ->required();
  paper_app
      ->add_option("--figures", paper.figures,
                   "any of " + sim::figure_names(false) + " (default: all)")
      ->delimiter(',');
  paper_app->add_flag("--quick", paper.is_quick, "two points of each curve, over a short time");
  paper_app->add_flag("--json", paper.json, "print one JSON object instead of tables");
  paper_app->add_option("--out", paper.out,
                        "write report.md, figures.json and curves (gnuplot) into this directory");
  paper_app->callback([&] { status = sim::paper_command(paper); });

  sim::KneeOptions knee;
  auto* knee_app = app.add_subcommand(
      "knee", "find the part of the device past which a group's throughput hardly rises");
  knee_app->add_option("SCENARIO", knee.scenario, kScenarioHelp)->required();
  knee_app
      ->add_option("--parts", knee.percents, "parts of the device to try, in percent, ascending")
      ->delimiter(',')
      ->check(number_between(1, 100))
      ->capture_default_str();
  knee_app->add_option("--batches", knee.batches, "batch sizes to try, in requests")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  knee_app
      ->add_option("--threshold", knee.threshold,
                   "gain of throughput, from the knee to the largest part, that counts as little")
      ->check(number_between(0, 10))
      ->capture_default_str();
  add_output(knee_app, knee.output);
  knee_app->callback([&] {
    if (!std::ranges::is_sorted(knee.percents, std::less_equal<>()))
      status = fail(Code::kInvalidArgument, "--parts: give them in ascending order");
    else
      status = sim::knee_command(knee);
  });

  sim::GsliceOptions gslice;
  auto* gslice_app = app.add_subcommand(
      "gslice", "reproduce the figures of GSLICE with transformers, beside the paper's statements");
  gslice_app->add_flag("--quick", gslice.is_quick, "over a short time");
  gslice_app->add_flag("--json", gslice.json, "print one JSON object instead of tables");
  gslice_app->add_option("--out", gslice.out,
                         "write report.md, figures.json and curves (gnuplot) into this directory");
  gslice_app->callback([&] { status = sim::gslice_command(gslice); });

  sim::FaultsOptions faults;
  auto* faults_app = app.add_subcommand("faults", "inject faults and check the invariants");
  faults_app->add_option("--first-seed", faults.first_seed, "seed of the first run")
      ->check(CLI::Range(uint64_t{0}, uint64_t{INT64_MAX}))
      ->capture_default_str();
  faults_app->add_option("--seeds", faults.seeds, "number of runs, each with the next seed")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}))
      ->capture_default_str();
  faults_app->add_option("--log", faults.log, "write the events of the last seed to this file");
  faults_app->callback([&] { status = sim::faults_command(faults); });

  log::set_level(log::Level::kError);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    fmt::print(stderr, "itif-sim: {} (see --help)\n", error.what());
    return kFailed;
  }
  if (!status) {
    fmt::print(stderr, "itif-sim: {}\n", status.error().message);
    return kFailed;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "itif-sim: standard output: results are missing\n");
    return kFailed;
  }
  return 0;
}
