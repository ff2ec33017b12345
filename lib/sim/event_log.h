// The events of a run, as lines of text in order of virtual time. Two runs from one seed write
// the same bytes. The log keeps a hash of all lines, and writes them to a file if there is one.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string_view>

namespace itif::sim {

class EventLog {
 public:
  // `file` may be null; it outlives the log.
  explicit EventLog(std::FILE* file = nullptr) : file_(file) {}

  template <class... Args>
  void add(uint64_t now_ns, fmt::format_string<Args...> format, Args&&... args) {
    line_.clear();
    fmt::format_to(std::back_inserter(line_), "{} ", now_ns);
    fmt::format_to(std::back_inserter(line_), format, std::forward<Args>(args)...);
    line_.push_back('\n');
    append({line_.data(), line_.size()});
  }
  uint64_t hash() const noexcept { return hash_; }  // FNV-1a, 64 bits
  uint64_t num_events() const noexcept { return num_events_; }

 private:
  void append(std::string_view line) {
    for (const char c : line) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    ++num_events_;
    if (file_ != nullptr) std::fwrite(line.data(), 1, line.size(), file_);
  }

  std::FILE* file_;
  fmt::memory_buffer line_;
  uint64_t hash_ = 0xcbf29ce484222325;
  uint64_t num_events_ = 0;
};

}  // namespace itif::sim
