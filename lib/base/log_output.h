// Writes text to a descriptor without ever waiting for its reader: a pipe that nobody reads, or a
// closed one, loses text instead of stopping the process.
//
// The flag O_NONBLOCK belongs to the open file, which other processes share. A pipe or terminal is
// therefore opened a second time. If that is not allowed, a write follows a poll: it waits only if
// another process fills the pipe between the two.
//
// One thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::log {

class LogOutput {
 public:
  // Writes to the descriptor, which stays the caller's. Its file must not change meanwhile.
  explicit LogOutput(int fd) noexcept;
  // Appends to a file, which is made with mode 0640 if it does not exist. Errors: kPermission,
  // kNotFound (its directory), kInvalidArgument (another kind of file).
  static Result<LogOutput> open_file(const std::string& path);
  ~LogOutput();
  LogOutput(LogOutput&& other) noexcept;
  LogOutput& operator=(LogOutput&& other) noexcept;

  // Returns false if the text is lost. A part that does not fit into a pipe is kept, and precedes
  // the next text. REQUIRES: SIGPIPE is ignored.
  bool write(std::string_view text);
  bool is_terminal() const noexcept;

 private:
  enum class Kind { kFile, kSocket, kNonblocking, kPolled };

  LogOutput(int fd, bool owned, Kind kind) noexcept : fd_(fd), owned_(owned), kind_(kind) {}
  // Returns the number of bytes written.
  size_t write_some(std::string_view text) const noexcept;

  int fd_;
  bool owned_ = false;
  Kind kind_ = Kind::kFile;
  std::string rest_;  // of a text that was written in part
};

}  // namespace itif::log
