// Computes how long an answered request was in each stage, from its time stamps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "request/times.h"
#include "telemetry/stages.h"

namespace itif::pipeline {

// Returns ns by telemetry::Stage. A point without a stamp, or with one that another thread's clock
// puts before the preceding point, counts as reached together with the preceding one. So the stages
// always add up to the total.
inline std::array<uint64_t, telemetry::kNumRequestStages> stage_times(
    const request::Times& times) noexcept {
  using telemetry::Stage;
  struct Point {
    uint64_t at_ns;
    Stage stage;  // ends here
  };
  const Point points[] = {
      {times.complete_ns, Stage::kReassembly}, {times.verified_ns, Stage::kVerify},
      {times.free_ns, Stage::kQueue},          {times.queued_ns, Stage::kIntake},
      {times.chosen_ns, Stage::kQueue},        {times.planned_ns, Stage::kPlan},
      {times.launched_ns, Stage::kLaunch},     {times.done_ns, Stage::kCompute},
      {times.first_out_ns, Stage::kRespond},   {times.last_out_ns, Stage::kSend}};
  std::array<uint64_t, telemetry::kNumRequestStages> stages{};
  uint64_t before = times.arrival_ns;
#pragma GCC unroll 16  // keeps the stages' sums in registers
  for (const Point& point : points) {
    stages[static_cast<size_t>(point.stage)] += std::max(point.at_ns, before) - before;
    before = std::max(point.at_ns, before);
  }
  stages.back() = before - times.arrival_ns;
  return stages;
}

}  // namespace itif::pipeline
