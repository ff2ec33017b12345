// The capacity of one batch.
#pragma once

#include <cstdint>
#include <limits>

namespace itif::sched {

// The rows that the planner fills: TCB's B rows of L tokens. A planner without rows has one of any
// length.
struct BatchRows {
  static constexpr uint32_t kAnyLength = std::numeric_limits<uint32_t>::max();

  uint32_t number = 1;
  uint32_t tokens = kAnyLength;  // of each

  bool have_length() const noexcept { return tokens != kAnyLength; }
};

struct BatchLimits {
  uint32_t max_tokens = 4096;
  uint32_t max_requests = 256;
  BatchRows rows = {};
  // True: orders may choose requests that the whole batch makes late. late_requests.h then lets
  // them run first.
  bool late_run_first = false;
};

}  // namespace itif::sched
