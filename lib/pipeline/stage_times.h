// The time of an answered request in each stage, from its points in time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "request/times.h"
#include "telemetry/stages.h"

namespace itif::pipeline {

// In ns, by telemetry::Stage. A point that was not stamped, or that another thread's clock puts
// before the point ahead of it, counts as reached together with the one ahead: the stages always
// add up to the total.
inline std::array<uint64_t, telemetry::kNumRequestStages> stage_times(
    const request::Times& times) noexcept {
  const uint64_t points[] = {times.complete_ns, times.verified_ns,  times.queued_ns,
                             times.chosen_ns,   times.planned_ns,   times.launched_ns,
                             times.done_ns,     times.first_out_ns, times.last_out_ns};
  std::array<uint64_t, telemetry::kNumRequestStages> stages;
  static_assert(std::size(points) + 1 == stages.size());
  uint64_t before = times.arrival_ns;
  for (size_t i = 0; i < std::size(points); ++i) {
    stages[i] = std::max(points[i], before) - before;
    before = std::max(points[i], before);
  }
  stages.back() = before - times.arrival_ns;
  return stages;
}

}  // namespace itif::pipeline
