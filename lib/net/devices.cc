#include "net/devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_memory.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "net/eal_log.h"

namespace itif::net {
namespace {

namespace fs = std::filesystem;

// No machine has this PCI device. As the only one allowed, it keeps EAL from opening all others.
constexpr const char* kNoPciDevice = "--allow=0000:00:00.0";

// Returns the value of an option, which may be attached ("--vdev=X", "-aX") or the next argument.
// Advances `at` past it. Returns nullptr if args[at] is another option.
const char* value_of(const std::vector<std::string>& args, size_t& at, std::string_view option) {
  const std::string& arg = args[at];
  if (!arg.starts_with(option)) return nullptr;
  if (arg.size() == option.size()) return at + 1 < args.size() ? args[++at].c_str() : nullptr;
  const bool is_long = option.starts_with("--");
  if (is_long && arg[option.size()] != '=') return nullptr;
  return arg.c_str() + option.size() + (is_long ? 1 : 0);
}

// Returns the value of `key` in "name,key=value,…"; empty if there is none.
std::string device_argument(const std::string& device, std::string_view key) {
  size_t at = device.find(',');
  while (at != device.npos) {
    const size_t end = device.find(',', at + 1);
    const std::string word = device.substr(at + 1, end == device.npos ? end : end - at - 1);
    if (word.starts_with(key) && word.size() > key.size() && word[key.size()] == '=')
      return word.substr(key.size() + 1);
    at = end;
  }
  return {};
}

// Removes the socket of a memif server if no process listens on it.
void remove_stale_socket(const std::string& device) {
  if (!device.starts_with("net_memif")) return;
  const std::string role = device_argument(device, "role");
  const std::string path = device_argument(device, "socket");
  if ((role != "server" && role != "master") || !path.starts_with('/')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED)
    ::unlink(path.c_str());
  ::close(fd);
}

fs::path telemetry_socket(const std::string& prefix) {
  // EAL's choice of the folder: the prefix is its last part.
  return fs::path(rte_eal_get_runtime_dir()).parent_path() / prefix / "dpdk_telemetry.v2";
}

}  // namespace

DeviceArgs split_devices(const std::vector<std::string>& args) {
  DeviceArgs split;
  bool uses_pci = true;
  for (size_t at = 0; at < args.size(); ++at) {
    const char* device = nullptr;
    for (const char* option : {"--vdev", "--allow", "-a"})
      if (device == nullptr) device = value_of(args, at, option);
    if (device != nullptr) {
      split.devices.emplace_back(device);
      continue;
    }
    // With devices that are allowed, EAL refuses others that are blocked.
    if (value_of(args, at, "--block") != nullptr || value_of(args, at, "-b") != nullptr) continue;
    uses_pci = uses_pci && args[at] != "--no-pci";
    split.eal_args.push_back(args[at]);
  }
  if (uses_pci) split.eal_args.emplace_back(kNoPciDevice);
  return split;
}

std::string file_prefix(const std::vector<std::string>& args) {
  for (size_t at = 0; at < args.size(); ++at)
    if (const char* prefix = value_of(args, at, "--file-prefix")) return prefix;
  return "rte";
}

std::vector<std::string> with_file_prefix(std::vector<std::string> args,
                                          const std::string& prefix) {
  std::vector<std::string> changed;
  for (size_t at = 0; at < args.size(); ++at)
    if (value_of(args, at, "--file-prefix") == nullptr) changed.push_back(args[at]);
  changed.push_back("--file-prefix=" + prefix);
  return changed;
}

std::string with_mac(const std::string& device, const MacAddress& mac) {
  if (!device.starts_with("net_memif") || !device_argument(device, "mac").empty()) return device;
  return device + ",mac=" + format_mac(mac);
}

bool can_be_shared(const std::string& driver) {
  return driver == "net_af_packet";
}

void close_memif_listener(const std::string& arguments) noexcept {
  constexpr int kMostDescriptors = 4096;
  const std::string device = "net_memif," + arguments;
  const std::string role = device_argument(device, "role");
  if (role != "server" && role != "master") return;
  std::string path = device_argument(device, "socket");
  if (path.empty()) path = "/run/memif.sock";  // the driver's default
  // A descriptor that is never readable takes the socket's place in EAL's set, also if that is made
  // again.
  const int quiet = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (quiet < 0) return;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_un address{};
    size = sizeof address - 1;  // keeps the name terminated
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        address.sun_family != AF_UNIX)
      continue;
    const bool is_abstract = address.sun_path[0] == '\0';
    if (path == address.sun_path + (is_abstract ? 1 : 0)) (void)::dup3(quiet, fd, O_CLOEXEC);
  }
  ::close(quiet);
}

void remove_stale_sockets(const std::vector<std::string>& args) {
  for (const std::string& device : split_devices(args).devices) remove_stale_socket(device);
}

Status attach_devices(std::span<const std::string> devices) {
  for (const std::string& device : devices) {
    remove_stale_socket(device);
    capture_eal_log();
    const int result = rte_dev_probe(device.c_str());
    const std::vector<std::string> lines = release_eal_log();
    if (result == 0) continue;
    const std::string name = device.substr(0, device.find(','));
    const bool refused = result == -EPERM || result == -EACCES;
    return fail(refused ? Code::kPermission : Code::kNotFound,
                fmt::format("DPDK cannot create {}: {}", name,
                            lines.empty() ? errno_text(-result) : lines.front()));
  }
  return {};
}

Status give_hugepages(uid_t user, gid_t group) {
  struct Owner {
    uid_t user;
    gid_t group;
  } owner{user, group};
  const auto give = [](const rte_memseg_list*, const rte_memseg* page, void* to) {
    const int file = rte_memseg_get_fd(page);  // negative: it has none
    const auto* owner = static_cast<const Owner*>(to);
    return file >= 0 && ::fchown(file, owner->user, owner->group) != 0 ? -errno : 0;
  };
  const int error = rte_memseg_walk(give, &owner);
  if (error >= 0) return {};
  return fail(Code::kPermission, fmt::format("process.user: cannot give the files of hugepages to "
                                             "user {}: {}",
                                             user, errno_text(-error)));
}

std::vector<std::string> make_runtime_directories() {
  constexpr std::string_view kSuffix = "-handover";  // serving/takeover.cc
  const fs::path own = rte_eal_get_runtime_dir();
  std::string prefix = own.filename();
  if (prefix.ends_with(kSuffix))
    prefix.resize(prefix.size() - kSuffix.size());
  else
    prefix += kSuffix;
  const fs::path other = own.parent_path() / prefix;
  // EAL makes the folder of all prefixes for its user only. Each prefix's folder stays private.
  std::error_code ignored;
  fs::permissions(own.parent_path(), fs::perms(0111), fs::perm_options::add, ignored);
  if (::mkdir(other.c_str(), 0700) != 0 && errno != EEXIST)
    log::warning("cannot make {}: {}: a handover may not be possible", other.string(),
                 errno_text(errno));
  return {own, other};
}

std::string runtime_root() {
  return fs::path(rte_eal_get_runtime_dir()).parent_path().parent_path();
}

void link_telemetry(const std::string& prefix, const std::string& own_prefix) {
  if (prefix == own_prefix) return;
  const fs::path own = telemetry_socket(own_prefix), link = telemetry_socket(prefix);
  std::error_code error;
  if (!fs::exists(own, error)) return;
  fs::remove(link, error);
  fs::create_symlink(own, link, error);
  if (error)
    log::warning("dpdk-telemetry.py finds this process under -f {} only: {}", own_prefix,
                 error.message());
}

void unlink_telemetry(const std::string& prefix) {
  std::error_code error;
  // EAL is not running yet, so it cannot say where its folder is.
  const char* const folders[] = {std::getenv("RUNTIME_DIRECTORY"), "/var/run"};
  for (const char* folder : folders) {
    if (folder == nullptr) continue;
    const fs::path path = fs::path(folder) / "dpdk" / prefix / "dpdk_telemetry.v2";
    if (fs::is_symlink(path, error)) fs::remove(path, error);
  }
}

}  // namespace itif::net
