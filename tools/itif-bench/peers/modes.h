// Runs one workload in every execution mode and compares their results. Runs of seq and itif
// alternate on one instance, as do seq-fused and packed. Instances follow each other, because the
// weights of all would not fit in memory.
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
  std::vector<std::string> missing;  // "MODE: reason" of modes that do not fit in memory
  // Times of sequential execution over those of `mode`, itif or packed, with the same operators;
  // nullopt: not measured.
  std::optional<Samples> speed_up(std::string_view mode) const;
};

// Errors: those of make_execution, also if no mode fits; kInternal, a mode's results differ from
// the others'.
Result<ModeSamples> measure_modes(const Workload& workload, const Effort& effort);

// Compares the results of two modes (Execution::last_states). Errors: kInternal, a tenant's values
// differ.
Status check_same(std::string_view mode, const std::vector<float>& got,
                  const std::vector<float>& expected, const Workload& workload);

// Rows of a case: the latency by mode in ms, with the floor. paper(i): the thesis's figure for the
// i-th mode, if it has one.
void add_latencies(const std::string& name, const Workload& workload, const ModeSamples& modes,
                   const Samples& floor,
                   const std::function<std::optional<double>(size_t mode)>& paper, Report& report);
// Rows of a case: how much faster one instance is than sequential execution. `paper`: ITIF's, by
// the thesis.
void add_speed_ups(const std::string& name, const ModeSamples& modes, std::optional<double> paper,
                   Report& report);

// The workload's GEMMs alone. If a mode was faster, something else disturbed the floor: it is
// measured again, at most twice, and the fastest counts. Errors: as bare_gemms().
Result<Samples> measure_floor(const Workload& workload, Effort effort, const ModeSamples& modes);

}  // namespace itif::bench
