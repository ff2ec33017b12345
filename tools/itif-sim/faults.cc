// itif-sim faults: many seeds of lib/sim/faults.h.
#include "sim/faults.h"

#include <fmt/format.h>

#include "base/log.h"
#include "commands.h"
#include "log_file.h"

namespace itif::sim {

Status faults_command(const FaultsOptions& options) {
  log::set_level(log::Level::kNone);  // injected faults are reported as errors
  ITIF_ASSIGN(Nic * nic, process_nic());
  FaultFigures sum;
  for (uint64_t i = 0; i < options.seeds; ++i) {
    const uint64_t seed = options.first_seed + i;
    const bool is_last = i + 1 == options.seeds;
    ITIF_ASSIGN(LogFile log, LogFile::open(is_last ? options.log : ""));
    const Result<FaultFigures> figures = run_faults(seed, *nic, log.get());
    if (!figures)
      return fail(
          figures.error().code,
          fmt::format("seed {}: {}. To replay it: itif-sim faults --first-seed {} --seeds 1 "
                      "--log events.txt",
                      seed, figures.error().message, seed));
    ITIF_TRY(log.close());
    sum.add(*figures);
  }
  fmt::print(
      "{} seeds: {} requests ({} answered with {} generated tokens, {} refused, {} lost), {} "
      "datagrams lost, {} "
      "damaged, {} device faults, {} tenants removed, {} added, {} restarts; events of the "
      "last seed {:016x}\n",
      options.seeds, sum.requests, sum.answered, sum.generated, sum.refused, sum.lost,
      sum.datagrams_lost, sum.datagrams_damaged, sum.device_faults, sum.tenants_removed,
      sum.tenants_added, sum.restarts, sum.log_hash);
  return {};
}

}  // namespace itif::sim
