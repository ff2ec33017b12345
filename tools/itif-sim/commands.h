// The subcommands of itif-sim.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/scenario.h"
#include "sim/simulation.h"

namespace itif::sim {

// Options of several subcommands.
struct Output {
  bool json = false;
  std::string plot;  // a directory; empty: no plot
};

// Errors: kUnsupported: the scenario has several groups.
Status check_one_group(const Scenario& scenario);
// The process's NIC, which the first call opens. Errors: those of Nic::open().
Result<Nic*> process_nic();
// Runs a scenario on the process's NIC.
Result<Results> simulate(const Scenario& scenario, const SimulationOptions& options = {});

struct RunOptions {
  std::string scenario;
  std::string log;  // a file for the events; empty: none
  Output output;
};
Status run_command(const RunOptions& options);

struct SweepOptions {
  std::string scenario;
  // "arrivals.rate=100,200,400": the x axis; a second one gives a curve per value.
  std::vector<std::string> vary;
  std::vector<std::string> metrics;
  Output output;
};
Status sweep_command(const SweepOptions& options);

struct PlanOptions {
  std::string scenario;
  double share_in_time = 0.99;  // of the requests
  uint64_t p99_ns = 0;          // 0: only deadlines count
  std::vector<std::string> planners, schedulers, dtypes;
  std::vector<uint32_t> max_requests;
  std::vector<double> shares;  // of the device, in percent
  Output output;
};
Status plan_command(const PlanOptions& options);

struct ValidateOptions {
  std::string scenario;
  std::string record;  // itif-loadgen --json
  double tolerance = 0.15;
  Output output;
};
Status validate_command(const ValidateOptions& options);

struct PaperOptions {
  std::string scenario;
  std::vector<std::string> figures;  // empty: all
  bool is_quick = false;             // two points of each curve
  bool json = false;
  std::string out;  // a directory for report.md, figures.json and the curves; empty: none
};
Status paper_command(const PaperOptions& options);

struct KneeOptions {
  std::string scenario;
  std::vector<double> percents = {5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100};
  std::vector<uint32_t> batches = {1, 2, 4, 8, 16, 32};  // requests
  double threshold = 0.1;                                // of slice/knee.h
  uint64_t duration_ns = 300'000'000;                    // of each point
  Output output;
};
Status knee_command(const KneeOptions& options);

struct GsliceOptions {
  bool is_quick = false;  // seconds instead of minutes of virtual time
  bool json = false;
  std::string out;  // a directory for report.md, figures.json and the curves; empty: none
};
Status gslice_command(const GsliceOptions& options);

struct FaultsOptions {
  uint64_t first_seed = 1;
  uint64_t seeds = 100;
  std::string log;  // a file for the events of the last seed; empty: none
};
Status faults_command(const FaultsOptions& options);

}  // namespace itif::sim
