// A measurement of a group that its thread takes step by step between its batches. It yields to
// other groups: its launches wait while others need the device's time (device/turn_taking.h).
#pragma once

#include <atomic>

#include "device/turn_taking.h"
#include "execution/group_stage.h"

namespace itif::serving {

// `Meter` has bool step(Stream&), which returns false when done, and double progress().
template <class Meter>
class MeasureTask final : public execution::StageTask {
 public:
  // Both outlive the task. It ends early once `cancelled` is true.
  MeasureTask(Meter& meter, const std::atomic<bool>& cancelled)
      : meter_(meter), cancelled_(cancelled) {}

  bool step(device::Stream& stream) noexcept override {
    if (cancelled_.load()) return false;
    auto* const turns = dynamic_cast<device::TurnTaking*>(&stream);
    if (turns != nullptr) turns->set_background(true);
    const bool more = meter_.step(stream);
    if (turns != nullptr) turns->set_background(false);
    progress_.store(meter_.progress(), std::memory_order_relaxed);
    return more;
  }
  double progress() const { return progress_.load(std::memory_order_relaxed); }  // any thread

 private:
  Meter& meter_;
  const std::atomic<bool>& cancelled_;
  std::atomic<double> progress_{0};
};

}  // namespace itif::serving
