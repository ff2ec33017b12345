// Writes one log line per event. The header does not include spdlog, so that it compiles fast.
// Never log per datagram or per request: use a counter.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "base/error.h"

namespace itif::log {

enum class Level { kDebug, kInfo, kWarning, kError, kNone };  // kNone: nothing is written

// Lines go to standard error as "2026-01-31 12:00:00.000 info  text". Default level: info.
void set_level(Level level);
// "debug", "info", "warning" or "error". Errors: kInvalidArgument.
Result<Level> parse_level(std::string_view name);
void write(Level level, std::string_view line);

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
