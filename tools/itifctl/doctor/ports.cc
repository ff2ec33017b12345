// Ports: a NIC's driver, IOMMU and NUMA node; a kernel interface; MTU and offloads.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "doctor/checks.h"
#include "wire/geometry.h"

namespace itif::ctl::doctor {
namespace {

using nlohmann::json;

constexpr uint32_t kEthernetAndVlanBytes = 22;

// NICs whose DPDK driver works beside the kernel's.
bool keeps_kernel_driver(const std::string& driver) {
  return driver == "mlx5_core" || driver == "mlx4_core" || driver == "mana";
}
bool is_userspace_driver(const std::string& driver) {
  return driver == "vfio-pci" || driver == "uio_pci_generic" || driver == "igb_uio";
}

std::string pci_path(const std::string& address, const char* file) {
  return fmt::format("/sys/bus/pci/devices/{}/{}", address, file);
}

// Checks the driver. Returns its name; "": the port cannot work.
std::string check_driver(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::string name = fmt::format("driver of {}", use.device);
  if (!machine.files.exists(pci_path(use.device, "vendor"))) {
    checks.push_back(fail(name, "the machine has no such PCI device",
                          "lspci -D | grep -i ethernet   # lists the NICs' addresses"));
    return {};
  }
  const std::string driver = machine.files.link_name(pci_path(use.device, "driver"));
  if (keeps_kernel_driver(driver) || is_userspace_driver(driver)) {
    checks.push_back(ok(name, driver));
    return driver;
  }
  const std::vector<std::string> interfaces = machine.files.list(pci_path(use.device, "net"));
  checks.push_back(
      fail(name,
           driver.empty() ? std::string("bound to none")
                          : fmt::format("{}{}: the kernel has it", driver,
                                        interfaces.empty() ? "" : " (" + interfaces.front() + ")"),
           fmt::format(
               "{}modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {}",
               interfaces.empty() ? "" : fmt::format("ip link set {} down && ", interfaces.front()),
               use.device)));
  return {};
}

void check_iommu(const Machine& machine, const PortUse& use, const std::string& driver,
                 Checks& checks) {
  const std::string name = fmt::format("IOMMU of {}", use.device);
  if (keeps_kernel_driver(driver))
    return checks.push_back(not_applicable(name, driver + " does not need one"));
  const std::string group = machine.files.link_name(pci_path(use.device, "iommu_group"));
  const std::string unsafe =
      machine.files.text_or("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "N");
  if (driver != "vfio-pci")
    return checks.push_back(
        warn(name,
             driver + " works without one: the NIC can write to all memory, and only root "
                      "may use it",
             fmt::format("dpdk-devbind.py --bind=vfio-pci {}", use.device)));
  if (unsafe.starts_with('Y') && machine.files.list("/sys/class/iommu").empty())
    return checks.push_back(
        warn(name,
             "vfio-pci in no-IOMMU mode: the NIC can write to all memory, and only root may "
             "use it",
             "add intel_iommu=on iommu=pt (AMD: amd_iommu=on iommu=pt) to the kernel's arguments, "
             "turn VT-d or AMD-Vi on in the firmware, and reboot"));
  if (group.empty())
    return checks.push_back(
        fail(name, "off: vfio-pci has no group for the NIC",
             "add intel_iommu=on iommu=pt (AMD: amd_iommu=on iommu=pt) to the kernel's arguments "
             "and reboot; without an IOMMU: echo 1 > "
             "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"));
  const std::string file = "/dev/vfio/" + group;
  if (machine.is_running() || machine.files.may(file, R_OK | W_OK))
    return checks.push_back(ok(name, fmt::format("on; {}", file)));
  if (!machine.files.exists(file))
    return checks.push_back(fail(name, fmt::format("on, but {} is missing", file),
                                 fmt::format("modprobe vfio-pci && dpdk-devbind.py "
                                             "--bind=vfio-pci {}",
                                             use.device)));
  checks.push_back(fail(name, fmt::format("on, but user {} may not open {}", ::geteuid(), file),
                        fmt::format("chown {} {} /dev/vfio/vfio", ::geteuid(), file)));
}

void check_node(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::string name = fmt::format("NUMA node of {}", use.device);
  const int node = machine.node_of_device(use.device);
  if (node < 0)
    return checks.push_back(not_applicable(name, "the machine has one node, or does not say"));
  const CpuUse cpus = machine.cpus();
  std::vector<unsigned> far;
  for (const unsigned cpu : cpus.workers)
    if (machine.node_of_cpu(cpu) != node) far.push_back(cpu);
  const std::vector<unsigned> near =
      machine.cpu_list(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
  if (far.empty())
    return checks.push_back(
        ok(name, fmt::format("{}; workers on {}", node,
                             cpus.workers.empty() ? "any CPU" : cpus_text(cpus.workers))));
  checks.push_back(warn(
      name,
      fmt::format("{}, but workers {} are on another node: packets cross it", node, cpus_text(far)),
      fmt::format("name CPUs of {} in eal.args (--lcores) and "
                  "data_plane.worker_lcores of the configuration",
                  cpus_text(near))));
}

// IPv4 addresses of the kernel itself, from /proc/net/fib_trie.
std::vector<std::string> kernel_addresses(const Machine& machine) {
  std::vector<std::string> addresses;
  std::string last;
  for (const std::string& line : machine.files.lines("/proc/net/fib_trie")) {
    if (const size_t at = line.find("|-- "); at != line.npos) last = line.substr(at + 4);
    if (line.find("host LOCAL") != line.npos && std::ranges::count(addresses, last) == 0)
      addresses.push_back(last);
  }
  return addresses;
}

std::string bare(const std::string& address) {
  return address.substr(0, address.find('/'));
}

void check_interface(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::string name = fmt::format("interface {}", use.interface);
  const std::string folder = "/sys/class/net/" + use.interface;
  // /sys may be mounted in another network namespace than this process is in.
  const std::string listed = machine.files.text_or("/proc/net/dev", "");
  if (!machine.files.exists(folder) && listed.find(" " + use.interface + ":") != listed.npos)
    return checks.push_back(
        not_applicable(name, "/sys is another network namespace's: use `ip netns exec`"));
  if (!machine.files.exists(folder))
    return checks.push_back(fail(name, "there is none in this network namespace",
                                 "ip link   # lists them; correct iface= in eal.args"));
  const std::string flags = machine.files.text_or(folder + "/flags", "0x0");
  unsigned value = 0;
  if (flags.size() > 2) std::from_chars(flags.data() + 2, flags.data() + flags.size(), value, 16);
  if ((value & 1) == 0)  // IFF_UP
    return checks.push_back(fail(name, "down", fmt::format("ip link set {} up", use.interface)));
  const std::string state = machine.files.text_or(folder + "/operstate", "unknown");
  if (state == "down" || state == "lowerlayerdown")
    checks.push_back(
        warn(name, "up, but it has no carrier",
             fmt::format("ethtool {}   # cable, or the other end of the veth", use.interface)));
  else
    checks.push_back(ok(name, "up, " + state));
}

// The kernel of this network namespace must not have the port's addresses, too.
void check_addresses(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::vector<std::string> own = kernel_addresses(machine);
  for (const std::string& address : use.port->ipv4)
    if (std::ranges::count(own, bare(address)) > 0)
      checks.push_back(fail(fmt::format("address {}", bare(address)),
                            "the kernel has it, too: it answers clients that nobody listens",
                            fmt::format("ip address del {} dev {}", address, use.interface)));
}

const json* health_of(const Machine& machine, const PortUse& use) {
  if (!machine.is_running() || !machine.health.contains("ports")) return nullptr;
  for (const json& port : machine.health["ports"])
    if (use.device.empty() || port.value("device", "") == use.device) return &port;
  return nullptr;
}

void check_mtu(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::string name =
      fmt::format("MTU of {}", use.device.empty() ? "the first port" : use.device);
  const uint32_t mtu = use.port->mtu;
  const uint32_t path_mtu = use.port->path_mtu > 0 ? use.port->path_mtu : mtu;
  const uint32_t needed = mtu + kEthernetAndVlanBytes;
  if (needed > machine.config.data_plane.mbuf_bytes)
    return checks.push_back(
        fail(name,
             fmt::format("ports[].mtu is {}, whose frames have {} bytes, and packet buffers {}",
                         mtu, needed, machine.config.data_plane.mbuf_bytes),
             fmt::format("data_plane.mbuf_bytes = {} in the configuration",
                         (needed + 1023) / 1024 * 1024)));
  if (const json* port = health_of(machine, use); port && port->value("mtu", mtu) != mtu)
    return checks.push_back(
        warn(name, fmt::format("itifd has {}, ports[].mtu is {}", port->value("mtu", 0u), mtu),
             "systemctl restart itifd   # or the device does not take this MTU"));
  if (use.kind == PortUse::Kind::kInterface) {
    const auto found = machine.files.number("/sys/class/net/" + use.interface + "/mtu");
    if (found && *found < static_cast<int64_t>(mtu))
      return checks.push_back(
          fail(name,
               fmt::format("{} has {}, ports[].mtu is {}: longer answers are lost", use.interface,
                           *found, mtu),
               fmt::format("ip link set {} mtu {}", use.interface, mtu)));
    if (found && *found > static_cast<int64_t>(mtu))
      return checks.push_back(
          warn(name,
               fmt::format("{} has {}, ports[].mtu is {}: longer datagrams of clients are lost",
                           use.interface, *found, mtu),
               fmt::format("ip link set {} mtu {}   # or ports[].mtu = {}", use.interface, mtu,
                           *found)));
  }
  const uint32_t fragment = wire::fragment_bytes_for_mtu(path_mtu);
  const std::string evidence = fmt::format("{}; pieces of up to {} bytes fit", mtu, fragment);
  if (fragment >= wire::kDefaultFragmentBytes) return checks.push_back(ok(name, evidence));
  checks.push_back(warn(
      name,
      fmt::format("{}, fewer than the {} that clients send", evidence, wire::kDefaultFragmentBytes),
      fmt::format("itif-loadgen --fragment-bytes {}   # as other clients' setting", fragment)));
}

void check_offloads(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::string name =
      fmt::format("offloads of {}", use.device.empty() ? "the first port" : use.device);
  const json* port = health_of(machine, use);
  if (port == nullptr || !port->contains("offloads"))
    return checks.push_back(
        not_applicable(name, "only an itifd that runs knows them: start it, then run this again"));
  const json& offloads = (*port)["offloads"];
  std::string has, lacks;
  // Without RSS, itifd spreads flows in software, unless the driver of a virtual port does.
  const json ways = port->value("spreading", json::array());
  const bool needs_rss =
      use.port->num_queues > 1 && std::ranges::find(ways, "driver") == ways.end();
  for (const auto& [offload, is_on] : offloads.items()) {
    if (offload == "rss" && !needs_rss) continue;
    std::string& list = is_on.is_boolean() && is_on.get<bool>() ? has : lacks;
    list += (list.empty() ? "" : ", ") + offload;
  }
  if (lacks.empty()) return checks.push_back(ok(name, has));
  // The CPU computes missing checksums and spreads flows: that is usual for virtual ports.
  const std::string evidence =
      fmt::format("{}; in software: {}", has.empty() ? "none" : has, lacks);
  if (use.kind != PortUse::Kind::kPci) return checks.push_back(ok(name, evidence));
  checks.push_back(
      warn(name, evidence,
           fmt::format("dpdk-telemetry.py   # then /ethdev/info,0; update the firmware "
                       "of {}",
                       use.device)));
}

}  // namespace

void check_ports(const Machine& machine, Checks& checks) {
  for (const PortUse& use : machine.ports()) {
    if (use.kind == PortUse::Kind::kPci) {
      const std::string driver = check_driver(machine, use, checks);
      if (!driver.empty()) check_iommu(machine, use, driver, checks);
      check_node(machine, use, checks);
    } else {
      const std::string why =
          use.driver.empty() ? "the configuration names no device" : use.driver + " is no NIC";
      for (const char* what : {"driver", "IOMMU", "NUMA node"})
        checks.push_back(not_applicable(
            fmt::format("{} of {}", what, use.device.empty() ? "the port" : use.device), why));
    }
    if (use.kind == PortUse::Kind::kInterface) {
      check_interface(machine, use, checks);
      check_addresses(machine, use, checks);
    }
    check_mtu(machine, use, checks);
    check_offloads(machine, use, checks);
  }
}

}  // namespace itif::ctl::doctor
