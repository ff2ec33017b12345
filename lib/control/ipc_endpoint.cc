#include "control/ipc_endpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace itif::control {
namespace {

constexpr std::string_view kScheme = "ipc://";
constexpr int kBacklog = 128;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace

Result<std::string> ipc_path(const std::string& endpoint) {
  if (!endpoint.starts_with(kScheme))
    return fail(Code::kInvalidArgument,
                fmt::format("endpoint '{}' is not ipc://PATH: for access over the network set "
                            "control.tcp_endpoint and CURVE keys",
                            endpoint));
  std::string path = endpoint.substr(kScheme.size());
  // An abstract name ("@…") has no file, so no mode protects it.
  if (!path.starts_with('/') || path.ends_with('/'))
    return fail(Code::kInvalidArgument,
                fmt::format("endpoint '{}' must name a socket file by an absolute path", endpoint));
  if (path.size() >= sizeof(sockaddr_un::sun_path) || path.find('\0') != path.npos)
    return fail(Code::kInvalidArgument,
                fmt::format("the path of '{}' has {} bytes: a socket's has at most {}", endpoint,
                            path.size(), sizeof(sockaddr_un::sun_path) - 1));
  return path;
}

Status probe_ipc(const std::string& path) {
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(Code::kResourceExhausted, "cannot make a socket: " + errno_text(errno));
  const sockaddr_un address = address_of(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN)  // a full backlog: a server listens
    return {};
  switch (errno) {
    case ENOENT:
    case ENOTDIR: return fail(Code::kNotFound, fmt::format("there is no socket {}", path));
    case ECONNREFUSED: return fail(Code::kUnavailable, fmt::format("nobody listens on {}", path));
    case EACCES:
    case EPERM:
      return fail(Code::kPermission,
                  fmt::format("{} is another user's: run as that user or as root", path));
    default:
      return fail(Code::kInvalidArgument,
                  fmt::format("cannot connect to {}: {}", path, errno_text(errno)));
  }
}

Result<Descriptor> listen_on_ipc(const std::string& path) {
  const std::string directory = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) ITIF_TRY(make_private_directory(directory));

  // Serialises servers that start together: one could unlink the other's new socket as stale.
  Descriptor guard(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!guard)
    return fail(Code::kPermission, fmt::format("cannot open {}: {}", directory, errno_text(errno)));
  ::flock(guard.get(), LOCK_EX);

  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return fail(Code::kInvalidArgument,
                  path + " exists and is not a socket: move it away, or set another endpoint");
    const Status live = probe_ipc(path);
    if (live)
      return fail(Code::kUnavailable,
                  path +
                      " is busy: another itifd listens on it: stop that one, or "
                      "set control.endpoint and control.events_endpoint to others");
    if (live.error().code == Code::kPermission) return std::unexpected(live.error());
    if (::unlink(path.c_str()) != 0)
      return fail(Code::kPermission,
                  fmt::format("cannot remove the stale socket {}: {}: run as its owner "
                              "or as root",
                              path, errno_text(errno)));
  }

  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(Code::kResourceExhausted, "cannot make a socket: " + errno_text(errno));
  // Set the mode before bind(): Linux creates the file with it, so others can never connect.
  const sockaddr_un address = address_of(path);
  if (::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    return fail(
        error == ENOSPC ? Code::kResourceExhausted : Code::kPermission,
        fmt::format("cannot listen on {}: {}: run as a user who may write there, or set another "
                    "endpoint",
                    path, errno_text(error)));
  }
  return fd;
}

}  // namespace itif::control
