// One workload by every execution mode, checked against each other. Sequential execution and ITIF are measured
// in turn, run by run, on one instance; the others after them, for the weights of all would not fit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "execution.h"
#include "timing.h"

namespace itif::bench {

struct ModeSamples {
  std::map<std::string, Samples> by_mode;
  std::vector<std::string> missing;  // why, of modes that the memory is too small for
  // Sequential execution's time over ITIF's, where both were measured.
  std::optional<double> speed_up() const;
};

// Errors: those of make_execution, also if no mode fits; kInternal, a mode that computes something else
// than the others.
Result<ModeSamples> measure_modes(const Workload& workload, const Effort& effort);

// What a mode computed (Execution::last_states) against another's. Errors: kInternal, a tenant whose values
// are not alike.
Status check_same(std::string_view mode, const std::vector<float>& got,
                  const std::vector<float>& expected, const Workload& workload);

// The workload's GEMMs alone. Errors: as bare_gemms().
Result<Samples> measure_floor(const Workload& workload, Effort effort);

}  // namespace itif::bench
