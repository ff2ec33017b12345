// Places threads on CPUs: chooses EAL's lcore arguments, unless the configuration names them, and
// the CPUs that executors may use.
//
// A busy-polling worker needs its own CPU: each is pinned to one, counted from the last, and
// executors use the others. Adaptive workers and executors share all CPUs, scheduled by the kernel.
// With two CPUs, any other placement would leave one idle half of the time.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace itif::pipeline {

struct CpuPlan {
  std::vector<std::string> eal_args;    // the configured ones; --lcores is added if they name none
  std::vector<unsigned> executor_cpus;  // empty: any
};

// `cpus`: the CPUs that this process may use, ascending. Errors: kInvalidArgument (too few CPUs for
// the busy workers and an executor).
Result<CpuPlan> plan_cpus(const config::Config& config, const std::vector<unsigned>& cpus);

// Errors: kInvalidArgument, the machine lacks one of `cpus` (device.cpus).
Status check_cpus(const std::vector<unsigned>& cpus);

// The CPUs of a compute pool and of the workers beside it.
struct PoolCpus {
  uint32_t num_threads = 0;                        // of the pool; 0: a GPU computes
  uint32_t num_process_cpus = 0;                   // used if executor_cpus is empty
  std::vector<unsigned> executor_cpus;             // empty: any
  std::vector<std::vector<unsigned>> worker_cpus;  // that each worker may run on
};

// Returns the workers that need CPUs of the pool, by their indices in worker_cpus. Returns none if
// the pool's CPUs are enough for the pool and these workers.
std::vector<size_t> workers_sharing_cpus(const PoolCpus& pool);

// Returns the CPUs in this process's affinity mask.
std::vector<unsigned> usable_cpus();

}  // namespace itif::pipeline
