// A measurement of a group that its thread takes step by step between its batches. It yields to
// other groups: its launches wait while others need the device's time (device/turn_taking.h).
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "device/turn_taking.h"
#include "execution/group_stage.h"

namespace itif::serving {

// `Meter` has bool step(Stream&), which returns false when done, and double progress().
template <class Meter>
class MeasureTask final : public execution::StageTask {
 public:
  // The meter outlives the task, which ends early once `gives_up` returns true, on any thread.
  MeasureTask(Meter& meter, std::function<bool()> gives_up)
      : meter_(meter), gives_up_(std::move(gives_up)) {}

  bool step(device::Stream& stream) noexcept override {
    if (gives_up_()) {
      gave_up_.store(true, std::memory_order_relaxed);
      return false;
    }
    auto* const turns = dynamic_cast<device::TurnTaking*>(&stream);
    if (turns != nullptr) turns->set_background(true);
    const bool more = meter_.step(stream);
    if (turns != nullptr) turns->set_background(false);
    progress_.store(meter_.progress(), std::memory_order_relaxed);
    return more;
  }
  // Returns true if the task has ended before its meter was done. Any thread.
  bool gave_up() const { return gave_up_.load(std::memory_order_relaxed); }
  double progress() const { return progress_.load(std::memory_order_relaxed); }  // any thread

 private:
  Meter& meter_;
  const std::function<bool()> gives_up_;
  std::atomic<bool> gave_up_{false};
  std::atomic<double> progress_{0};
};

}  // namespace itif::serving
