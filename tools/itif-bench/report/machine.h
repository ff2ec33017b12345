// Describes the machine of a measurement.
#pragma once

#include <cstdint>
#include <string>

namespace itif::bench {

struct Machine {
  std::string cpu;
  uint32_t cpus = 0;  // usable by this process
  uint64_t memory_bytes = 0;
  std::string kernel;
};
Machine this_machine();

// "AMD EPYC, 2 CPUs, 23.4 GiB, Linux 6.1.0"
std::string describe(const Machine& machine);

}  // namespace itif::bench
