#include "net/eal_log.h"

#include <rte_log.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "base/log.h"

namespace itif::net {
namespace {

constexpr size_t kMaxKept = 64;

// Warnings that every healthy start prints.
constexpr std::string_view kHarmless[] = {"No legacy callbacks", "multiq qdisc", "rte flow support",
                                          "qdisc kind is unknown"};

bool is_harmless(std::string_view line) {
  return std::any_of(std::begin(kHarmless), std::end(kHarmless),
                     [&](std::string_view words) { return line.find(words) != line.npos; });
}

struct EalLog {
  std::mutex mutex;  // any thread may log
  std::string line;
  std::string stderr_line;
  std::vector<std::string> kept;
  bool keeping = false;

  void take(const char* text, size_t bytes) {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < bytes; ++i) {
      if (text[i] == '\n')
        end_line();
      else
        line += text[i];
    }
  }

  void take_stderr(const char* text, size_t bytes) {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < bytes; ++i) {
      if (text[i] != '\n') {
        stderr_line += text[i];
        continue;
      }
      // EAL also logs these. getopt prints its message once per parse, and EAL parses repeatedly.
      const bool repeated =
          stderr_line.starts_with("EAL: FATAL") || (!kept.empty() && kept.back() == stderr_line);
      if (!stderr_line.empty() && !repeated) keep(stderr_line);
      stderr_line.clear();
    }
  }

  void keep(const std::string& text) {
    if (keeping && kept.size() < kMaxKept)
      kept.push_back(text);
    else
      log::write(log::Level::kWarning, text);
  }

  void end_line() {
    const int level = rte_log_cur_msg_loglevel();
    if (!line.empty() && level > 0) {
      const bool grave = level <= static_cast<int>(RTE_LOG_WARNING) && !is_harmless(line);
      if (grave)
        keep(line);
      else
        log::write(log::Level::kDebug, line);
    }
    line.clear();
  }
};

EalLog& eal_log() {
  static EalLog* log = new EalLog;  // never freed: DPDK may log until the process exits
  return *log;
}

ssize_t write_cookie(void*, const char* text, size_t bytes) {
  eal_log().take(text, bytes);
  return static_cast<ssize_t>(bytes);
}

ssize_t write_stderr_cookie(void*, const char* text, size_t bytes) {
  eal_log().take_stderr(text, bytes);
  return static_cast<ssize_t>(bytes);
}

}  // namespace

std::FILE* eal_stderr() {
  static std::FILE* const stream = [] {
    std::FILE* made = fopencookie(nullptr, "w", {nullptr, write_stderr_cookie, nullptr, nullptr});
    if (made != nullptr) setvbuf(made, nullptr, _IOLBF, BUFSIZ);
    return made;
  }();
  return stream;
}

void capture_eal_log() {
  eal_log().keeping = true;
  static FILE* stream = nullptr;
  if (stream == nullptr) {
    stream = fopencookie(nullptr, "w", {nullptr, write_cookie, nullptr, nullptr});
    if (stream != nullptr) setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  }
  if (stream != nullptr) rte_openlog_stream(stream);
}

std::vector<std::string> release_eal_log() {
  const std::lock_guard lock(eal_log().mutex);
  eal_log().keeping = false;
  return eal_log().kept;
}

std::string eal_complaint_about(std::string_view device) {
  const std::lock_guard lock(eal_log().mutex);
  for (const std::string& line : eal_log().kept)
    if (!device.empty() && line.find(device) != std::string::npos) return line;
  return {};
}

}  // namespace itif::net
