// Rights: capabilities for the ports, system calls, the state directory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "doctor/checks.h"

namespace itif::ctl::doctor {
namespace {

// linux/capability.h.
struct Capability {
  unsigned number;
  std::string_view name;
};
constexpr Capability kNetAdmin = {12, "net_admin"}, kNetRaw = {13, "net_raw"}, kBpf = {39, "bpf"},
                     kSysAdmin = {21, "sys_admin"}, kSysRawio = {17, "sys_rawio"};

// Those that a driver needs to open its port.
std::vector<Capability> needed_by(const Machine& machine, const PortUse& use) {
  if (use.driver == "net_af_packet") return {kNetAdmin, kNetRaw};
  if (use.driver == "net_af_xdp") return {kNetAdmin, kNetRaw, kBpf};
  if (use.driver == "net_tap") return {kNetAdmin};
  if (use.driver == "net_pcap" && !use.interface.empty()) return {kNetRaw};
  if (use.kind != PortUse::Kind::kPci) return {};
  const std::string driver =
      machine.files.link_name(fmt::format("/sys/bus/pci/devices/{}/driver", use.device));
  if (driver.starts_with("mlx")) return {kNetAdmin, kNetRaw};
  // Physical addresses.
  if (machine.files.list("/sys/class/iommu").empty()) return {kSysAdmin, kSysRawio};
  return {};
}

void check_capabilities(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "capabilities";
  std::string needed, missing;
  for (const PortUse& use : machine.ports())
    for (const Capability& capability : needed_by(machine, use)) {
      if (needed.find(capability.name) != needed.npos) continue;
      needed += fmt::format("{}{}", needed.empty() ? "" : ", ", capability.name);
      if (!machine.has_capability(capability.number))
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", capability.name);
    }
  if (needed.empty()) return checks.push_back(not_applicable(kName, "the ports need none"));
  if (machine.is_running())
    return checks.push_back(ok(kName, fmt::format("itifd has opened its ports ({})", needed)));
  if (missing.empty())
    return checks.push_back(ok(kName, fmt::format("user {} has {}", ::geteuid(), needed)));
  checks.push_back(
      fail(kName, fmt::format("user {} lacks {}, which the ports need", ::geteuid(), missing),
           "sudo itifctl doctor   # as the user that starts itifd: root, or the service (systemctl "
           "start itifd), whose unit gives them"));
}

void check_system_calls(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "seccomp";
  const std::string& mode = machine.config.process.seccomp;
  if (mode == "off") return checks.push_back(not_applicable(kName, "process.seccomp is \"off\""));
  const std::string actions = machine.files.text_or("/proc/sys/kernel/seccomp/actions_avail", "");
  if (actions.empty())
    return checks.push_back(fail(kName, "the kernel has no filter of system calls",
                                 "process.seccomp = \"off\" in the configuration"));
  const std::string action = mode == "kill" ? "kill_process" : mode == "log" ? "log" : "errno";
  if (actions.find(action) != actions.npos) return checks.push_back(ok(kName, actions));
  checks.push_back(fail(kName, fmt::format("the kernel lacks the action {}: {}", action, actions),
                        "process.seccomp = \"refuse\" in the configuration"));
}

void check_state(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "state directory";
  const std::string& path = machine.config.control.state_dir;
  const auto found = machine.files.status(path);
  if (!found) return checks.push_back(ok(kName, path + ": itifd makes it"));
  if (!S_ISDIR(found->st_mode))
    return checks.push_back(
        fail(kName, path + " is no directory",
             fmt::format("mv {0} {0}.old   # or another control.state_dir", path)));
  if ((found->st_mode & 077) != 0)
    return checks.push_back(
        fail(kName, fmt::format("{} has mode {:04o}, but holds keys", path, found->st_mode & 07777),
             fmt::format("chmod 700 {}", path)));
  if (!machine.is_running() && !machine.files.may(path, R_OK | W_OK | X_OK))
    return checks.push_back(
        warn(kName,
             fmt::format("{} is user {}'s: user {} cannot write there", path, found->st_uid,
                         ::geteuid()),
             fmt::format("sudo itifctl doctor   # as the user that starts itifd; or chown -R {} {}",
                         ::geteuid(), path)));
  checks.push_back(ok(kName, path + ", mode 0700"));
}

}  // namespace

void check_rights(const Machine& machine, Checks& checks) {
  check_capabilities(machine, checks);
  check_system_calls(machine, checks);
  check_state(machine, checks);
}

}  // namespace itif::ctl::doctor
