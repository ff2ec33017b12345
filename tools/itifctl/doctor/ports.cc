// Ports: their devices; a NIC's driver, IOMMU and NUMA node; MTU and offloads.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "doctor/checks.h"
#include "doctor/interfaces.h"
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

// EAL makes only the devices of --vdev, and with -a opens only the NICs that it names.
void check_device(const Machine& machine, const PortUse& use, Checks& checks) {
  const bool is_pci = use.kind == PortUse::Kind::kPci;
  const bool is_virtual = use.device.starts_with("net_") || use.device.starts_with("eth_");
  const bool has_no_pci = machine.eal_option("--no-pci") != nullptr;
  // A net_vdev_netvsc makes ports of another name.
  if (!is_pci && !is_virtual && !(use.device.empty() && has_no_pci)) return;
  if (use.device.starts_with("net_failsafe")) return;
  const std::string name =
      use.device.empty() ? std::string("device of the port") : "device " + use.device;
  std::string others;
  bool is_named = false;
  for (const std::string& device : machine.devices()) {
    std::string other = device.substr(0, device.find(','));
    if (other.starts_with("pci:")) other.erase(0, 4);
    if (is_pci != is_pci_address(other)) continue;
    if (is_pci) other = full_address(other);
    is_named = is_named || other == use.device;
    others += (others.empty() ? "" : ", ") + other;
  }
  if (is_pci && has_no_pci)
    return checks.push_back(
        fail(name, "eal.args have --no-pci: itifd opens no NIC", "take --no-pci out of eal.args"));
  if (is_pci && others.empty())
    return checks.push_back(ok(name, "eal.args name no NIC, so that EAL opens all"));
  if (!use.device.empty() && is_named) return checks.push_back(ok(name, "eal.args name it"));
  const std::string wanted = use.device.empty() ? "net_af_packet0" : use.device;
  const std::string add =
      is_pci ? fmt::format("\"-a\", \"{}\"", wanted)
             : fmt::format("\"--vdev={}{}\"", wanted,
                           wanted.find("af_") != wanted.npos ? ",iface=INTERFACE" : "");
  checks.push_back(
      fail(name,
           fmt::format("no {} of eal.args names it: they name {}", is_pci ? "-a" : "--vdev",
                       others.empty() ? "none" : others),
           others.empty()
               ? fmt::format("add {} to eal.args", add)
               : fmt::format("add {} to eal.args, or correct ports[].device ({})", add, others)));
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
    check_device(machine, use, checks);
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
    if (use.kind == PortUse::Kind::kInterface) check_interface(machine, use, checks);
    check_mtu(machine, use, checks);
    check_offloads(machine, use, checks);
  }
}

}  // namespace itif::ctl::doctor
