#include "report/machine.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "base/units.h"
#include "device/host/cpu.h"
#include "device/threads.h"

namespace itif::bench {

Machine this_machine() {
  Machine machine;
  machine.cpu = device::detect_cpu().name;
  machine.cpus = device::num_process_cpus();
  struct sysinfo memory {};
  if (sysinfo(&memory) == 0) machine.memory_bytes = uint64_t{memory.totalram} * memory.mem_unit;
  utsname names{};
  if (uname(&names) == 0) machine.kernel = fmt::format("{} {}", names.sysname, names.release);
  return machine;
}

std::string describe(const Machine& machine) {
  return fmt::format("{}, {} CPU{}, {}, {}", machine.cpu, machine.cpus,
                     machine.cpus == 1 ? "" : "s", format_bytes(machine.memory_bytes),
                     machine.kernel);
}

}  // namespace itif::bench
