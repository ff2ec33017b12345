#include "serving/privileges.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <vector>

#include "base/log.h"
#include "net/devices.h"

namespace itif::serving {
namespace {

namespace fs = std::filesystem;

constexpr Capabilities bit(int capability) {
  return Capabilities{1} << capability;
}

struct NamedCapability {
  int number;
  const char* name;
};
constexpr NamedCapability kNames[] = {{CAP_NET_RAW, "net_raw"},
                                      {CAP_NET_ADMIN, "net_admin"},
                                      {CAP_BPF, "bpf"},
                                      {CAP_IPC_LOCK, "ipc_lock"},
                                      {CAP_SYS_NICE, "sys_nice"}};

struct DriverNeeds {
  std::string_view driver;
  Capabilities always, to_open;
};
// af_xdp needs net_admin always: it removes its program from the interface when it closes.
constexpr DriverNeeds kNeeds[] = {
    {"net_af_packet", 0, bit(CAP_NET_ADMIN) | bit(CAP_NET_RAW)},  // MAC address, promiscuous
    {"net_af_xdp", bit(CAP_NET_ADMIN), bit(CAP_NET_ADMIN) | bit(CAP_NET_RAW) | bit(CAP_BPF)},
    {"net_tap", 0, bit(CAP_NET_ADMIN)},
    {"net_pcap", 0, bit(CAP_NET_RAW)},
};

std::optional<uint32_t> number_of(const std::string& text) {
  uint32_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

Status refused(const char* doing) {
  return fail(Code::kPermission,
              fmt::format("process.user: cannot {}: {}", doing, errno_text(errno)));
}

std::array<__user_cap_data_struct, 2> halves(Capabilities set) {
  std::array<__user_cap_data_struct, 2> data{};
  for (size_t i = 0; i < data.size(); ++i) {
    const auto half = static_cast<uint32_t>(set >> (32 * i));
    data[i] = {.effective = half, .permitted = half, .inheritable = half};
  }
  return data;
}

Capabilities permitted() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return 0;
  return data[0].permitted | Capabilities{data[1].permitted} << 32;
}

Status keep_capabilities(Capabilities kept) {
  kept &= permitted();
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const auto data = halves(kept);
  if (::syscall(SYS_capset, &header, data.data()) != 0) return refused("set capabilities");
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int i = 0; i < 64; ++i)
    if ((kept & bit(i)) != 0 && ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) != 0)
      return refused("pass capabilities on");
  return {};
}

// Raises a limit, which takes the place of a capability. Returns the capability if the limit cannot
// be raised.
Capabilities raise_limit(__rlimit_resource resource, rlim_t limit, int capability) {
  rlimit now{};
  if (::getrlimit(resource, &now) == 0 && now.rlim_cur >= limit) return 0;
  now.rlim_cur = limit;
  now.rlim_max = std::max(now.rlim_max, limit);
  return ::setrlimit(resource, &now) == 0 ? 0 : bit(capability);
}

Status become(const Account& account) {
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return refused("keep capabilities");
  if (::initgroups(account.name.c_str(), account.gid) != 0 ||
      ::setresgid(account.gid, account.gid, account.gid) != 0 ||
      ::setresuid(account.uid, account.uid, account.uid) != 0)
    return refused(("become " + account.name).c_str());
  (void)::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
  return {};
}

// Gives a file away if it is root's.
Status give(const Account& account, const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  // A file with another name may be another program's.
  const bool is_shared = !S_ISDIR(info.st_mode) && info.st_nlink > 1;
  if (info.st_uid != 0 || S_ISLNK(info.st_mode) || is_shared) return {};
  if (::lchown(path.c_str(), account.uid, account.gid) == 0) return {};
  return fail(Code::kPermission, fmt::format("process.user: cannot give {} to {}: {}",
                                             path.string(), account.name, errno_text(errno)));
}

Status give_all(const Account& account, const fs::path& directory) {
  ITIF_TRY(give(account, directory));
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    ITIF_TRY(give(account, entry->path()));
  return {};
}

// A socket of control, and its directory if only root uses it: handovers rename the socket.
Status give_endpoint(const Account& account, std::string_view endpoint) {
  constexpr std::string_view kScheme = "ipc://";
  if (!endpoint.starts_with(kScheme)) return {};
  const fs::path path = endpoint.substr(kScheme.size());
  ITIF_TRY(give(account, path));
  struct stat info {};
  const fs::path directory = path.parent_path();
  const bool is_private = ::stat(directory.c_str(), &info) == 0 && (info.st_mode & 077) == 0;
  return is_private ? give(account, directory) : Status();
}

}  // namespace

Result<std::optional<Account>> find_account(const config::Process& process) {
  if (process.user.empty()) {
    if (process.group.empty()) return std::nullopt;
    return fail(Code::kInvalidArgument, "process.group needs process.user");
  }
  const auto uid = number_of(process.user);
  const passwd* const user = uid ? ::getpwuid(*uid) : ::getpwnam(process.user.c_str());
  if (user == nullptr)
    return fail(Code::kNotFound,
                fmt::format("process.user: there is no user '{}': make one with `adduser --system "
                            "--group {}`, or leave it empty",
                            process.user, process.user));
  Account account{.name = user->pw_name, .uid = user->pw_uid, .gid = user->pw_gid};
  if (!process.group.empty()) {
    const auto gid = number_of(process.group);
    const group* const found = gid ? ::getgrgid(*gid) : ::getgrnam(process.group.c_str());
    if (found == nullptr)
      return fail(Code::kNotFound,
                  fmt::format("process.group: there is no group '{}'", process.group));
    account.gid = found->gr_gid;
  }
  if (::geteuid() != 0 && ::geteuid() != account.uid)
    return fail(Code::kPermission,
                fmt::format("process.user: this process runs as user {} and cannot become '{}': "
                            "start itifd as root, or as that user",
                            ::geteuid(), account.name));
  return account;
}

Capabilities capabilities_for(const std::string& driver, bool reopens) {
  for (const DriverNeeds& needs : kNeeds)
    if (driver == needs.driver) return needs.always | (reopens ? needs.to_open : 0);
  return 0;
}

std::string names_of(Capabilities capabilities) {
  std::string names;
  for (const auto& [number, name] : kNames)
    if ((capabilities & bit(number)) != 0)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names.empty() ? "none" : names;
}

Status give_files(const Account& account, const config::Config& config,
                  std::span<const std::string> directories) {
  if (::geteuid() != 0) return {};
  ITIF_TRY(give_all(account, config.control.state_dir));
  for (const std::string& directory : directories) ITIF_TRY(give_all(account, directory));
  ITIF_TRY(give_endpoint(account, config.control.endpoint));
  ITIF_TRY(give_endpoint(account, config.control.events_endpoint));
  return config.telemetry.log_file.empty() ? Status() : give(account, config.telemetry.log_file);
}

Status drop_privileges(const std::optional<Account>& account, Capabilities kept, bool opens_ports,
                       const config::Process& process) {
  const bool is_root = ::geteuid() == 0;
  if (is_root && (!account || account->uid == 0)) return {};
  // Allows a niceness of 0, which loaders need to leave the policy SCHED_IDLE.
  kept |= raise_limit(RLIMIT_NICE, 20, CAP_SYS_NICE);
  // A port's memory may be locked.
  const Capabilities lock = raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY, CAP_IPC_LOCK);
  if (opens_ports) kept |= lock;
  if (is_root) ITIF_TRY(become(*account));
  // A change of the user makes the process undumpable.
  if (process.core_dumps) (void)::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  return keep_capabilities(kept);
}

Status leave_root(const std::optional<Account>& account, const config::Config& config,
                  const pipeline::Pipeline& plane, bool opens_ports) {
  const bool opens = opens_ports || config.process.handover;
  Capabilities kept = 0;
  for (const auto& port : plane.ports()) kept |= capabilities_for(port->info().driver, opens);
  if (account) {
    ITIF_TRY(give_files(*account, config, net::make_runtime_directories()));
    if (::geteuid() == 0) ITIF_TRY(net::give_hugepages(account->uid, account->gid));
  }
  ITIF_TRY(drop_privileges(account, kept, opens, config.process));
  if (!account && ::geteuid() == 0)
    log::warning("runs as root: name a user in process.user, which itifd becomes after its start");
  if (account)
    log::info("runs as user {} with the capabilities {}", account->name, names_of(permitted()));
  return {};
}

}  // namespace itif::serving
