// Notices when a group has had no work for a while, so that its part of a device can be lent.
//
// A device that divides its time gives the time of idle groups to the others by itself. One that
// divides its processors leaves the part of an idle group unused, unless its owner lends it. One
// owner thread.
#pragma once

#include <cstdint>

#include "execution/group_stage.h"

namespace itif::execution {

class IdleWatch {
 public:
  static constexpr uint64_t kIdleAfterNs = 1'000'000'000;
  // Between two calls of look(): a group that works again waits this long for its part at most.
  static constexpr uint64_t kLookNs = 20'000'000;

  // The group counts as idle once it has had no work for kIdleAfterNs from now on.
  void start(uint64_t now_ns) noexcept { last_work_ns_ = now_ns; }
  // Looks at the group. Returns true if is_idle() has changed.
  bool look(const GroupStage& stage, uint64_t now_ns) noexcept;
  bool is_idle() const noexcept { return is_idle_; }

 private:
  uint64_t num_batches_ = 0;  // at the last look
  uint64_t last_work_ns_ = 0;
  bool is_idle_ = false;
};

// Returns the factor by which the parts of groups with work grow, if these have `busy_percent` of a
// device together and idle groups lend them `idle_percent`. 1 if all are idle: nobody needs more.
inline double lending_factor(double busy_percent, double idle_percent) noexcept {
  return busy_percent > 0 ? 1 + idle_percent / busy_percent : 1;
}

}  // namespace itif::execution
