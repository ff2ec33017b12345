#include "device/threads.h"

#include <sched.h>

#include <algorithm>

namespace itif::device {
namespace {

struct ProcessCpus {
  cpu_set_t set;
  uint32_t count = 1;
  ProcessCpus() {
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
      count = std::max(1u, static_cast<uint32_t>(CPU_COUNT(&set)));
  }
};
// Read before main(), while the process still has its initial mask.
const ProcessCpus at_start;

}  // namespace

std::vector<unsigned> process_cpus() {
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &at_start.set)) cpus.push_back(cpu);
  return cpus;
}

uint32_t num_process_cpus() {
  return at_start.count;
}

void use_cpus(std::span<const unsigned> cpus) {
  cpu_set_t set = at_start.set;
  if (!cpus.empty()) CPU_ZERO(&set);
  for (const unsigned cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace itif::device
