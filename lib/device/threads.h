// The CPUs that the process and its threads may run on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace itif::device {

// The CPUs in the process's affinity mask at start, before packet workers pin their threads (and
// with them the threads that these create), ascending.
std::vector<unsigned> process_cpus();
uint32_t num_process_cpus();  // at least 1
// Pins the calling thread to `cpus`; empty: to all CPUs of that mask. Ignores CPUs that the machine
// lacks.
void use_cpus(std::span<const unsigned> cpus);

}  // namespace itif::device
