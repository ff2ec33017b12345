// CPUs: those of the workers, their isolation, the governor, the clock, instructions.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "doctor/checks.h"

namespace itif::ctl::doctor {
namespace {

using CpuList = std::vector<unsigned>;

bool contains(const CpuList& all, unsigned cpu) {
  return std::ranges::find(all, cpu) != all.end();
}

CpuList without(const CpuList& cpus, const CpuList& others) {
  CpuList rest;
  for (const unsigned cpu : cpus)
    if (!contains(others, cpu)) rest.push_back(cpu);
  return rest;
}

void check_placement(const Machine& machine, const CpuUse& use, Checks& checks) {
  constexpr const char* kName = "CPUs";
  if (!use.error.empty())
    return checks.push_back(fail(kName, use.error,
                                 "correct eal.args, data_plane.worker_lcores or data_plane.polling "
                                 "in the configuration"));
  const CpuList online = machine.cpu_list("/sys/devices/system/cpu/online");
  CpuList named = use.workers;
  named.insert(named.end(), use.executors.begin(), use.executors.end());
  if (const CpuList missing = without(named, online); !online.empty() && !missing.empty())
    return checks.push_back(fail(
        kName,
        fmt::format("the machine has CPUs {}, but not {}", cpus_text(online), cpus_text(missing)),
        "name other CPUs in eal.args (--lcores) and device.cpus of the configuration"));
  const std::string evidence = fmt::format(
      "workers on {}; executors on {}", use.workers.empty() ? "any" : cpus_text(use.workers),
      use.executors.empty() ? "any" : cpus_text(use.executors));
  if (!use.is_busy || use.workers.empty()) return checks.push_back(ok(kName, evidence));
  CpuList shared;
  for (const unsigned cpu : use.workers)
    if (use.executors.empty() || contains(use.executors, cpu)) shared.push_back(cpu);
  if (!shared.empty())
    return checks.push_back(warn(
        kName,
        fmt::format("{}: busy workers and executors share {}, which slows both", evidence,
                    cpus_text(shared)),
        fmt::format("device.cpus = [ … ] in the configuration, without {}", cpus_text(shared))));
  // A busy thread takes half of a core whose other thread computes.
  for (const unsigned cpu : use.workers) {
    const CpuList siblings = machine.cpu_list(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    for (const unsigned other : siblings)
      if (other != cpu && (contains(use.workers, other) || contains(use.executors, other)))
        return checks.push_back(warn(
            kName, fmt::format("{}: CPUs {} and {} are threads of one core", evidence, cpu, other),
            fmt::format("leave CPU {} out of device.cpus and of the workers", other)));
  }
  checks.push_back(ok(kName, evidence));
}

void check_isolation(const Machine& machine, const CpuUse& use, Checks& checks) {
  const std::pair<const char*, const char*> lists[] = {
      {"isolcpus", "/sys/devices/system/cpu/isolated"},
      {"nohz_full", "/sys/devices/system/cpu/nohz_full"}};
  for (const auto& [name, path] : lists) {
    if (!use.is_busy || use.workers.empty()) {
      checks.push_back(not_applicable(
          name, "workers sleep when they are idle (data_plane.polling): the kernel places them"));
      continue;
    }
    const CpuList found = machine.cpu_list(path);
    const std::string evidence = found.empty() ? "none" : cpus_text(found);
    const CpuList missing = without(use.workers, found);
    if (missing.empty()) {
      checks.push_back(ok(name, evidence));
      continue;
    }
    checks.push_back(warn(name,
                          fmt::format("{}; workers poll on {}", evidence, cpus_text(use.workers)),
                          fmt::format("add {}={} to the kernel's arguments (GRUB_CMDLINE_LINUX in "
                                      "/etc/default/grub; then update-grub and reboot)",
                                      name, cpus_text(use.workers))));
  }
}

void check_governor(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "governor";
  std::set<std::string> found;
  CpuList slow;
  for (const unsigned cpu : machine.cpu_list("/sys/devices/system/cpu/online")) {
    const auto governor = machine.files.text(
        fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpu));
    if (!governor) continue;
    found.insert(*governor);
    if (*governor != "performance") slow.push_back(cpu);
  }
  if (found.empty())
    return checks.push_back(
        not_applicable(kName, "the kernel does not set the CPUs' frequency (a virtual machine?)"));
  std::string names;
  for (const std::string& name : found) names += (names.empty() ? "" : ", ") + name;
  if (slow.empty()) return checks.push_back(ok(kName, names));
  checks.push_back(warn(kName, fmt::format("{} on CPUs {}", names, cpus_text(slow)),
                        "cpupower frequency-set -g performance"));
}

std::set<std::string> cpu_flags(const Machine& machine) {
  for (const std::string& line : machine.files.lines("/proc/cpuinfo")) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

// DPDK counts time in ticks of the TSC; itifd reads the kernel's clock for each batch of packets.
void check_clock(const Machine& machine, const std::set<std::string>& flags, Checks& checks) {
  constexpr const char* kName = "clock";
  const std::string folder = "/sys/devices/system/clocksource/clocksource0/";
  const std::string current = machine.files.text_or(folder + "current_clocksource", "");
  const std::string available = machine.files.text_or(folder + "available_clocksource", "");
  std::string missing;
  for (const char* flag : {"constant_tsc", "nonstop_tsc"})
    if (!flags.contains(flag)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", flag);
  if (current.empty()) return checks.push_back(not_applicable(kName, "the kernel does not say"));
  if (!missing.empty())
    return checks.push_back(
        warn(kName,
             fmt::format("{}; the CPU lacks {}: times are wrong when its frequency changes",
                         current, missing),
             "cpupower frequency-set -g performance   # keeps the frequency; in a virtual machine "
             "pass the flags through (-cpu host,+invtsc)"));
  // kvm-clock and hyperv_clocksource are read in user space, as the TSC is.
  const bool is_fast =
      current == "tsc" || current == "kvm-clock" || current.starts_with("hyperv_clocksource_tsc");
  if (is_fast) return checks.push_back(ok(kName, current + ", with constant_tsc and nonstop_tsc"));
  const bool has_tsc = available.find("tsc") != available.npos;
  checks.push_back(
      warn(kName, current + ": each reading is a system call",
           has_tsc ? fmt::format("echo tsc > {}current_clocksource", folder)
                   : std::string("add tsc=reliable to the kernel's arguments and reboot")));
}

void check_instructions(const Machine& machine, const std::set<std::string>& flags,
                        Checks& checks) {
  constexpr const char* kName = "instructions";
  const std::string& dtype = machine.config.device.dtype;
  if (flags.empty())
    return checks.push_back(not_applicable(kName, "/proc/cpuinfo does not list them"));
  const bool has_amx = flags.contains("amx_bf16") && flags.contains("amx_tile");
  const bool has_bf16 = has_amx || flags.contains("avx512_bf16");
  const std::string best = has_amx                     ? "AMX bf16"
                           : has_bf16                  ? "AVX512-BF16"
                           : flags.contains("avx512f") ? "AVX-512, without bf16"
                           : flags.contains("avx2")    ? "AVX2, without bf16"
                                                       : "neither AVX2 nor AVX-512";
  if (machine.config.device.kind == "cuda")
    return checks.push_back(not_applicable(kName, "a GPU computes; the CPU has " + best));
  if (machine.config.device.kind == "host" && dtype == "bf16" && !has_bf16)
    return checks.push_back(fail(kName, best + ": device.dtype = \"bf16\" needs AMX or AVX512-BF16",
                                 "device.dtype = \"auto\" in the configuration"));
  if (has_bf16) return checks.push_back(ok(kName, best));
  checks.push_back(
      warn(kName, best + ": the CPU computes in f32, several times slower than in bf16",
           "lscpu | grep -i -E 'avx512_bf16|amx'   # in a virtual machine pass them through (-cpu "
           "host)"));
}

}  // namespace

void check_cpus(const Machine& machine, Checks& checks) {
  const CpuUse use = machine.cpus();
  check_placement(machine, use, checks);
  check_isolation(machine, use, checks);
  check_governor(machine, checks);
  const std::set<std::string> flags = cpu_flags(machine);
  check_clock(machine, flags, checks);
  check_instructions(machine, flags, checks);
}

}  // namespace itif::ctl::doctor
