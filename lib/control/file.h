// The control server's files and directories: owner-only, locked against a second process,
// replaced atomically.
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
  // Errors: kUnavailable (another process holds it; the message ends with `holder`, which names
  // that process and the remedy), kPermission, kNotFound.
  static Result<FileLock> acquire(const std::string& path, const std::string& holder);

 private:
  explicit FileLock(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

// Makes `path` and its parents with mode 0700. Does not change an existing directory.
// Errors: kPermission (group or others have any access to it), kInvalidArgument (not a directory).
Status make_private_directory(const std::string& path);

// Returns a file's text. Errors: kNotFound, kPermission, kInvalidArgument (longer than max_bytes,
// or not a regular file).
Result<std::string> read_file(const std::string& path, size_t max_bytes);
// Errors: kPermission (the file's mode has any of `forbidden_mode_bits`), kNotFound.
Status check_mode(const std::string& path, unsigned forbidden_mode_bits);
// Writes a temporary file and renames it to `path`, so that readers see the old text or the new.
// The new text is on disk when the call returns.
// Errors: kPermission, kNotFound, kResourceExhausted.
Status write_file(const std::string& path, const std::string& text, unsigned mode);

}  // namespace itif::control
