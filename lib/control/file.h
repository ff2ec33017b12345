// Files and directories of control: owner-only, locked against a second process, written whole.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"

namespace itif::control {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// An exclusive flock, held until destruction.
class FileLock {
 public:
  // Errors: kUnavailable (held by another process; `holder` says whose that would be and what to
  // do), kPermission, kNotFound.
  static Result<FileLock> acquire(const std::string& path, const std::string& holder);

 private:
  explicit FileLock(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

// Makes `path` (parents too) with mode 0700 if it is not there. A directory that is there is left
// as it is: Errors: kPermission if group or others may enter or write it, kInvalidArgument if it is
// no directory.
Status make_private_directory(const std::string& path);

// The text of a file that must be short. Errors: kNotFound, kPermission, kInvalidArgument (too
// long, no regular file).
Result<std::string> read_file(const std::string& path, size_t max_bytes);
// Errors: kPermission if group or others may do any of `forbidden_mode_bits`, kNotFound.
Status check_mode(const std::string& path, unsigned forbidden_mode_bits);
// Writes beside and renames, so that a reader sees the old text or the new; mode as given.
// Errors: kPermission, kNotFound, kResourceExhausted.
Status write_file(const std::string& path, const std::string& text, unsigned mode);

}  // namespace itif::control
