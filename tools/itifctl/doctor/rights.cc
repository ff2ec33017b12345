// Rights: capabilities for the ports, system calls, the state directory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error.h"
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

// itifd makes the directory and those above it.
void check_missing_state(const Machine& machine, const std::string& path, Checks& checks) {
  constexpr const char* kName = "state directory";
  const auto parent_of = [](const std::string& of) {
    const std::string parent = std::filesystem::path(of).parent_path();
    return parent.empty() ? std::string(".") : parent;
  };
  std::string folder = parent_of(path);
  while (!machine.files.exists(folder) && parent_of(folder) != folder) folder = parent_of(folder);
  const auto found = machine.files.status(folder);
  if (found && !S_ISDIR(found->st_mode))
    return checks.push_back(
        fail(kName, fmt::format("{} cannot be made: {} is no directory", path, folder),
             fmt::format("mv {0} {0}.old   # or another control.state_dir", folder)));
  const int error = machine.files.try_make_directory_in(folder);
  if (error == 0) return checks.push_back(ok(kName, path + ": itifd makes it"));
  const bool lacks_right = error == EACCES || error == EPERM;
  const std::string remedy =
      lacks_right && ::geteuid() != 0 && machine.files.may(folder, X_OK)
          ? fmt::format("sudo install -d -m 700 -o {} {}   # or run itifd, and this, as root",
                        ::geteuid(), path)
      : error == EROFS ? fmt::format(
                             "mount -o remount,rw $(findmnt -n -o TARGET -T {})   # or "
                             "another control.state_dir",
                             folder)
      : error == ENOSPC || error == EDQUOT
          ? fmt::format("df -i {}   # make room, or another control.state_dir", folder)
          : std::string(
                "control.state_dir = \"/var/lib/itif\" in the configuration, or another "
                "directory on a disk, in which this user may write");
  checks.push_back(fail(kName,
                        fmt::format("{} cannot be made: user {} cannot make a directory in {}: {}",
                                    path, ::geteuid(), folder, errno_text(error)),
                        remedy));
}

void check_state(const Machine& machine, Checks& checks) {
  constexpr const char* kName = "state directory";
  const std::string& path = machine.config.control.state_dir;
  const auto found = machine.files.status(path);
  if (!found) return check_missing_state(machine, path, checks);
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
        fail(kName,
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
