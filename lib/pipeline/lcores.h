// Which CPUs what runs on: EAL's lcore arguments where the configuration leaves them to us, and the
// CPUs that executors may use.
//
// Busy polling wants a CPU to itself: each worker is pinned to one, counted from the last, and
// executors keep off them. Adaptive workers and executors share all CPUs, and the kernel sorts them
// out: with two CPUs anything else would leave one idle half of the time.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace itif::pipeline {

struct CpuPlan {
  std::vector<std::string> eal_args;    // the configuration's, with --lcores if it named none
  std::vector<unsigned> executor_cpus;  // empty: anywhere
};

// `cpus`: those that this process may use, ascending. Errors: kInvalidArgument, more busy workers
// than there are CPUs to give away.
Result<CpuPlan> plan_cpus(const config::Config& config, const std::vector<unsigned>& cpus);

// The CPUs in this process's affinity mask.
std::vector<unsigned> usable_cpus();

}  // namespace itif::pipeline
