// Runs one workload in every execution mode and compares their results. Runs of seq and itif
// alternate on one instance. The other modes are measured after them, because the weights of all
// would not fit in memory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "peers/execution.h"
#include "report/timing.h"

namespace itif::bench {

struct ModeSamples {
  std::map<std::string, Samples> by_mode;
  std::vector<std::string> missing;  // "MODE: reason" of modes that do not fit in memory
  // Sequential execution's time over ITIF's, where both were measured.
  std::optional<double> speed_up() const;
};

// Errors: those of make_execution, also if no mode fits; kInternal, a mode's results differ from
// the others'.
Result<ModeSamples> measure_modes(const Workload& workload, const Effort& effort);

// Compares the results of two modes (Execution::last_states). Errors: kInternal, a tenant's values
// differ.
Status check_same(std::string_view mode, const std::vector<float>& got,
                  const std::vector<float>& expected, const Workload& workload);

// The workload's GEMMs alone. Errors: as bare_gemms().
Result<Samples> measure_floor(const Workload& workload, Effort effort);

}  // namespace itif::bench
