#include "serving/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace itif::serving {
namespace {

// Returns the number in an environment variable; 0 if it is not set or not a number.
uint64_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  uint64_t number = 0;
  if (text == nullptr) return 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, number);
  return error == std::errc() && rest == end ? number : 0;
}

}  // namespace

void notify(std::string_view assignments) {
  static std::atomic<bool> failed{false};
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const timeval longest{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  const bool sent = ::sendto(fd, assignments.data(), assignments.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address),
                             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length)) >= 0;
  const int error = errno;
  ::close(fd);
  if (!failed.exchange(!sent) && !sent)
    log::warning("cannot send '{}' to the service manager: {}",
                 assignments.substr(0, assignments.find('\n')), errno_text(error));
}

void notify_main_pid(pid_t pid) {
  notify("MAINPID=" + std::to_string(pid));
}

uint64_t watchdog_ns() {
  const uint64_t pid = number_in("WATCHDOG_PID");
  if (pid != 0 && pid != static_cast<uint64_t>(::getpid())) return 0;
  constexpr uint64_t kLongestUs = 3600'000'000;
  const uint64_t us = number_in("WATCHDOG_USEC");
  return (us < kLongestUs ? us : kLongestUs) * 1000;
}

}  // namespace itif::serving
