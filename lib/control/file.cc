#include "control/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libgen.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace itif::control {
namespace {

Code code_of_errno(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS: return Code::kPermission;
    case ENOENT: return Code::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE: return Code::kResourceExhausted;
    case EEXIST: return Code::kAlreadyExists;
    default: return Code::kInvalidArgument;
  }
}

const char* remedy_of_errno(int error) {
  switch (error) {
    case EACCES:
    case EPERM: return ": run as its owner or as root";
    case EROFS: return ": choose a place that can be written";
    case ENOSPC:
    case EDQUOT: return ": free space on its file system";
    default: return "";
  }
}

std::unexpected<Error> errno_fail(int error, const std::string& doing) {
  return fail(code_of_errno(error),
              fmt::format("{}: {}{}", doing, errno_text(error), remedy_of_errno(error)));
}

std::string parent_of(std::string path) {
  return ::dirname(path.data());
}

// A new entry of a directory survives a power cut only after this. Some file systems cannot.
Status sync_directory(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && ::fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS)
    return errno_fail(errno, "cannot write " + path);
  return {};
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FileLock> FileLock::acquire(const std::string& path, const std::string& holder) {
  Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return errno_fail(errno, "cannot open " + path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return fail(Code::kUnavailable, fmt::format("{} is in use: {}", path, holder));
    return errno_fail(errno, "cannot lock " + path);
  }
  return FileLock(std::move(fd));
}

Status make_private_directory(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode))
      return fail(Code::kInvalidArgument,
                  path + " is not a directory: name another, or move the file away");
    if ((info.st_mode & 077) != 0)
      return fail(
          Code::kPermission,
          fmt::format(
              "{} has mode {:04o} and would hold keys: chmod 700 {}, or name another directory",
              path, info.st_mode & 07777, path));
    return {};
  }
  if (errno != ENOENT) return errno_fail(errno, "cannot access " + path);
  const std::string parent = parent_of(path);
  if (::stat(parent.c_str(), &info) != 0) ITIF_TRY(make_private_directory(parent));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_fail(errno, "cannot make " + path);
  return sync_directory(parent);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_fail(errno, "cannot read " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return errno_fail(errno, "cannot read " + path);
  if (!S_ISREG(info.st_mode)) return fail(Code::kInvalidArgument, path + " is not a regular file");
  std::string text(max_bytes + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_fail(errno, "cannot read " + path);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  if (have > max_bytes)
    return fail(Code::kInvalidArgument,
                fmt::format("{} is longer than {} bytes: is it the right file?", path, max_bytes));
  text.resize(have);
  return text;
}

Status check_mode(const std::string& path, unsigned forbidden_mode_bits) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno_fail(errno, "cannot access " + path);
  if ((info.st_mode & forbidden_mode_bits) != 0)
    return fail(Code::kPermission,
                fmt::format("{} has mode {:04o}, so others could {} it: chmod {:o} {}", path,
                            info.st_mode & 07777, (forbidden_mode_bits & 044) ? "read" : "change",
                            info.st_mode & 0777 & ~forbidden_mode_bits, path));
  return {};
}

Status write_file(const std::string& path, const std::string& text, unsigned mode) {
  const std::string beside = fmt::format("{}.{}.new", path, ::getpid());
  ::unlink(beside.c_str());
  Descriptor fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return errno_fail(errno, "cannot write " + path);
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t put = ::write(fd.get(), text.data() + written, text.size() - written);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int error = errno;
      ::unlink(beside.c_str());
      return errno_fail(error, "cannot write " + path);
    }
    written += static_cast<size_t>(put);
  }
  if (::fchmod(fd.get(), mode) != 0 || ::fsync(fd.get()) != 0 ||
      ::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    return errno_fail(error, "cannot write " + path);
  }
  return sync_directory(parent_of(path));
}

}  // namespace itif::control
