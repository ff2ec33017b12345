// Writes one log line per event. The header does not include spdlog, so that it compiles fast.
// Never log per datagram or per request: use a counter.
//
// Writing a line never waits for a reader of the log. Lines that cannot be written at once are lost
// and counted; the first line that can be written again is preceded by their number.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace itif::log {

enum class Level { kDebug, kInfo, kWarning, kError, kNone };  // kNone: nothing is written

// Lines go to standard error, or the file of open_file(), as
// "2026-01-31 12:00:00.000 info  text". Default level: info.
void set_level(Level level);
// "debug", "info", "warning" or "error". Errors: kInvalidArgument.
Result<Level> parse_level(std::string_view name);
void write(Level level, std::string_view line);

// Appends the lines to a file from now on. Errors: those of LogOutput::open_file; the lines then go
// where they went before.
Status open_file(const std::string& path);
// Opens the log's file again: a new one, if another program has renamed the previous one. Without
// a file, looks again what standard error is. Returns the file's path; empty: standard error.
// Errors: those of open_file().
Result<std::string> reopen();
// Writes text of another process, whole lines usually, into the log as it is.
void relay(std::string_view text);
// Returns how many lines are lost.
uint64_t lost_lines() noexcept;

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace itif::log
