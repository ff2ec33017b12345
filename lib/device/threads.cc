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
const ProcessCpus process_cpus;

}  // namespace

uint32_t num_process_cpus() {
  return process_cpus.count;
}

void use_cpus(std::span<const unsigned> cpus) {
  cpu_set_t set = process_cpus.set;
  if (!cpus.empty()) CPU_ZERO(&set);
  for (const unsigned cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace itif::device
