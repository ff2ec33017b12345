#include "base/log_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace itif::log {

LogOutput::LogOutput(int fd) noexcept : fd_(fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return;
  if (S_ISSOCK(info.st_mode)) {
    kind_ = Kind::kSocket;
  } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
    char path[32];
    *fmt::format_to_n(path, sizeof path - 1, "/proc/self/fd/{}", fd).out = '\0';
    const int again = ::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    owned_ = again >= 0;
    if (owned_) fd_ = again;
    kind_ = owned_ ? Kind::kNonblocking : Kind::kPolled;
  }
}

Result<LogOutput> LogOutput::open_file(const std::string& path) {
  // A named pipe without a reader must not stop the start either.
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0640);
  if (fd < 0) {
    const int error = errno;
    return fail(error == ENOENT                     ? Code::kNotFound
                : error == ENXIO || error == EISDIR ? Code::kInvalidArgument
                                                    : Code::kPermission,
                fmt::format("cannot open the log file {}: {}", path, errno_text(error)));
  }
  return LogOutput(fd, true, Kind::kNonblocking);
}

LogOutput::~LogOutput() {
  if (owned_) ::close(fd_);
}

LogOutput::LogOutput(LogOutput&& other) noexcept
    : fd_(other.fd_),
      owned_(std::exchange(other.owned_, false)),
      kind_(other.kind_),
      rest_(std::move(other.rest_)) {}

LogOutput& LogOutput::operator=(LogOutput&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(owned_, other.owned_);
  std::swap(kind_, other.kind_);
  std::swap(rest_, other.rest_);
  return *this;
}

size_t LogOutput::write_some(std::string_view text) const noexcept {
  size_t done = 0;
  while (done < text.size()) {
    size_t bytes = text.size() - done;
    if (kind_ == Kind::kPolled) {
      // A pipe that is ready takes as much without waiting.
      pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
      if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) break;
      bytes = std::min<size_t>(bytes, PIPE_BUF);
    }
    const char* const data = text.data() + done;
    const ssize_t written = kind_ == Kind::kSocket
                                ? ::send(fd_, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : ::write(fd_, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  return done;
}

bool LogOutput::write(std::string_view text) {
  if (!rest_.empty()) {
    rest_.erase(0, write_some(rest_));
    if (!rest_.empty()) return false;
  }
  const size_t written = write_some(text);
  if (written == 0 && !text.empty()) return false;
  rest_ = text.substr(written);
  return true;
}

bool LogOutput::is_terminal() const noexcept {
  return ::isatty(fd_) == 1;
}

}  // namespace itif::log
