// Runs one workload in every execution mode and compares their results. Runs of seq and itif
// alternate on one instance, as do seq-fused and packed. Instances follow each other, because the
// weights of all would not fit in memory. The floor, the workload's GEMMs alone, alternates with
// every mode, so that a machine whose speed drifts changes both alike.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "peers/make_execution.h"
#include "report/report.h"
#include "report/timing.h"

namespace itif::bench {

struct ModeSamples {
  std::map<std::string, Samples> by_mode;
  std::map<std::string, Samples> floors;  // measured in turn with the mode
  std::vector<std::string> missing;       // "MODE: reason" of modes that do not fit in memory
  // Times of sequential execution over those of `mode`, itif or packed, with the same operators;
  // nullopt: not measured.
  std::optional<Samples> speed_up(std::string_view mode) const;
};

// If a mode was faster than its floor, something else disturbed the floor: both are measured again,
// at most twice, and the run with the fastest floor counts. Errors: those of make_execution, also
// if no mode fits; those of bare_gemms(); kInternal, a mode's results differ from the others'.
Result<ModeSamples> measure_modes(const Workload& workload, const Effort& effort);

// Compares the results of two modes (Execution::last_states). Errors: kInternal, a tenant's values
// differ.
Status check_same(std::string_view mode, const std::vector<float>& got,
                  const std::vector<float>& expected, const Workload& workload);

// Rows of a case: the latency by mode in ms, with its floor. paper(i): the thesis's figure for the
// i-th mode, if it has one.
void add_latencies(const std::string& name, const Workload& workload, const ModeSamples& modes,
                   const std::function<std::optional<double>(size_t mode)>& paper, Report& report);
// Rows of a case: how much faster one instance is than sequential execution. `paper`: ITIF's, by
// the thesis.
void add_speed_ups(const std::string& name, const ModeSamples& modes, std::optional<double> paper,
                   Report& report);

}  // namespace itif::bench
