// Finds out whether the parts of the process still make progress. The service manager restarts the
// service if they do not.
//
// Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace itif::serving {

class Watchdog {
 public:
  // A part: `turns()` returns a count that rises as long as the part makes progress, or nothing if
  // the part does not run now.
  struct Part {
    std::string name;
    std::function<std::optional<uint64_t>()> turns;
  };
  // Logs a part that makes no progress for report_after_ns.
  Watchdog(const Clock& clock, std::vector<Part> parts, uint64_t report_after_ns);

  // Returns true if every part has made progress since the last call that returned true, or does
  // not run.
  bool all_progress();

 private:
  struct Seen {
    Part part;
    std::optional<uint64_t> turns;  // at the last progress
    uint64_t since_ns;
    bool is_reported = false;
    bool progresses = true;
  };

  const Clock& clock_;
  const uint64_t report_after_ns_;
  std::vector<Seen> parts_;
};

}  // namespace itif::serving
