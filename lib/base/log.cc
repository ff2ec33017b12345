#include "base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "base/log_output.h"

namespace itif::log {
namespace {

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
    case Level::kNone: return spdlog::level::off;
  }
  return spdlog::level::info;
}

constexpr std::string_view kColours[] = {"", "\033[36m", "\033[32m", "\033[33m\033[1m",
                                         "\033[31m\033[1m"};  // by spdlog's level
constexpr std::string_view kNoColour = "\033[m";

class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  Sink() : output_(STDERR_FILENO), has_colours_(output_.is_terminal()) {}

  Status open_file(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ITIF_ASSIGN(LogOutput opened, LogOutput::open_file(path));
    output_ = std::move(opened);
    has_colours_ = false;
    path_ = path;
    return {};
  }

  Result<std::string> reopen() {
    const std::lock_guard lock(mutex_);
    if (path_.empty()) {
      output_ = LogOutput(STDERR_FILENO);
      has_colours_ = output_.is_terminal();
    } else {
      ITIF_ASSIGN(output_, LogOutput::open_file(path_));
    }
    return path_;
  }

  void relay(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (!report_lost() || !output_.write(text))
      lose(static_cast<uint64_t>(std::ranges::count(text, '\n')));
  }

  uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!report_lost() || !output_.write(formatted(message))) lose(1);
  }
  void flush_() override {}

 private:
  std::string formatted(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string text(buffer.data(), buffer.size());
    if (has_colours_ && message.color_range_end > message.color_range_start) {
      text.insert(message.color_range_end, kNoColour);
      text.insert(message.color_range_start,
                  kColours[std::min<size_t>(message.level, std::size(kColours) - 1)]);
    }
    return text;
  }

  void lose(uint64_t lines) noexcept {
    unreported_ += lines;
    lost_.fetch_add(lines, std::memory_order_relaxed);
  }

  // Writes how many lines were lost since the last report. Returns false if it cannot be written.
  bool report_lost() {
    if (unreported_ == 0) return true;
    const std::string text = fmt::format(
        "{} lines of this log are lost: its reader was too slow, or the disk full", unreported_);
    if (!output_.write(formatted({"itif", spdlog::level::warn, text}))) return false;
    unreported_ = 0;
    return true;
  }

  LogOutput output_;
  bool has_colours_ = false;
  std::string path_;         // empty: standard error
  uint64_t unreported_ = 0;  // lost lines
  std::atomic<uint64_t> lost_{0};
};

Sink& sink() {
  // Never freed: threads of libraries may log until the process exits.
  static Sink* const instance = new Sink;
  return *instance;
}

spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto* made = new spdlog::logger("itif", std::shared_ptr<Sink>(&sink(), [](Sink*) {}));
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void set_level(Level level) {
  logger().set_level(spdlog_level(level));
}

Result<Level> parse_level(std::string_view name) {
  if (name == "debug") return Level::kDebug;
  if (name == "info") return Level::kInfo;
  if (name == "warning") return Level::kWarning;
  if (name == "error") return Level::kError;
  return fail(Code::kInvalidArgument,
              fmt::format("'{}' is not a log level: write debug, info, warning or error", name));
}

void write(Level level, std::string_view line) {
  logger().log(spdlog_level(level), line);
}

Status open_file(const std::string& path) {
  return sink().open_file(path);
}

Result<std::string> reopen() {
  return sink().reopen();
}

void relay(std::string_view text) {
  sink().relay(text);
}

uint64_t lost_lines() noexcept {
  return sink().lost();
}

}  // namespace itif::log
