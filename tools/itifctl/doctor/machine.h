// The subject of `itifctl doctor`: the machine's files, the configuration, and the document of an
// itifd that runs. And what follows from them for several checks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "doctor/files.h"

namespace itif::ctl::doctor {

// A port of the configuration, as far as its device says.
struct PortUse {
  enum class Kind { kPci, kInterface, kOther };  // a NIC; a kernel interface; neither

  const config::Port* port = nullptr;
  Kind kind = Kind::kOther;
  std::string driver;     // "net_af_packet"; a PCI device: "" (the kernel's driver is in sysfs)
  std::string device;     // "net_af_packet0", "0000:3b:00.0"
  std::string interface;  // kInterface: "eth1"; net_tap makes its own
  std::string arguments;  // in eal.args: "net_af_packet0,iface=eth1"; "": they do not name it
};

// The CPUs of the configuration.
struct CpuUse {
  std::vector<unsigned> workers;    // each worker's only CPU; empty: workers share several
  std::vector<unsigned> executors;  // empty: any
  bool is_busy = false;             // workers poll without sleeping
  std::string error;                // the configuration's CPUs cannot be used: why
};

struct Machine {
  Files files;
  std::string config_file;  // "": none was read, and `config` has the defaults
  config::Config config;
  nlohmann::json health;  // the `appliance` of an itifd that runs; null: none answers
  bool is_running() const { return health.is_object(); }

  std::vector<PortUse> ports() const;
  // The devices that eal.args make (--vdev) or allow (-a), with their arguments.
  std::vector<std::string> devices() const;
  CpuUse cpus() const;
  // The option's value in eal.args, "--lcores=X" or "-l X": nullptr: it is not there. Flags: "".
  const char* eal_option(std::string_view name) const;

  // Capabilities of this process (capabilities(7)), from /proc/self/status.
  uint64_t capabilities() const;
  bool has_capability(unsigned number) const { return (capabilities() >> number & 1) != 0; }
  // The NUMA nodes with CPUs, and a CPU's; -1: unknown.
  std::vector<unsigned> nodes() const;
  int node_of_cpu(unsigned cpu) const;
  // A PCI device's; -1: unknown, or the machine has one node.
  int node_of_device(const std::string& address) const;
  // The CPUs of a list file ("0-3,8"); empty: none, or no such file.
  std::vector<unsigned> cpu_list(const std::string& path) const;
};

// The value of `key` in "name,key=value,…"; "": none.
std::string argument_of(std::string_view device, std::string_view key);
// "0000:3b:00.0", "3b:00.0"; and the same with the domain.
bool is_pci_address(std::string_view name);
std::string full_address(const std::string& address);

// Parses EAL's --lcores: the CPUs of each lcore. Errors: kInvalidArgument.
struct Lcore {
  unsigned id = 0;
  std::vector<unsigned> cpus;
};
Result<std::vector<Lcore>> parse_lcores(std::string_view text);

// "3" for 3, "3 and 5", "2-5": for people.
std::string cpus_text(const std::vector<unsigned>& cpus);

}  // namespace itif::ctl::doctor
