#include "serving/watchdog.h"

#include <algorithm>

#include "base/log.h"
#include "base/units.h"

namespace itif::serving {

Watchdog::Watchdog(const Clock& clock, std::vector<Part> parts, uint64_t report_after_ns)
    : clock_(clock), report_after_ns_(report_after_ns) {
  for (Part& part : parts) {
    const auto turns = part.turns();
    parts_.push_back({.part = std::move(part), .turns = turns, .since_ns = clock.now_ns()});
  }
}

bool Watchdog::all_progress() {
  const uint64_t now_ns = clock_.now_ns();
  for (Seen& seen : parts_) {
    const auto turns = seen.part.turns();
    if (!turns || turns != seen.turns) {
      if (seen.is_reported) log::info("{} makes progress again", seen.part.name);
      seen.turns = turns;
      seen.since_ns = now_ns;
      seen.progresses = true;
      seen.is_reported = false;
    } else if (now_ns - seen.since_ns >= report_after_ns_ && !seen.is_reported) {
      log::error(
          "{} has made no progress for {}: the watchdog of the service manager is not told "
          "that all is well",
          seen.part.name, format_duration_ns(now_ns - seen.since_ns));
      seen.is_reported = true;
    }
  }
  if (!std::ranges::all_of(parts_, [](const Seen& seen) { return seen.progresses; })) return false;
  for (Seen& seen : parts_) seen.progresses = false;
  return true;
}

}  // namespace itif::serving
