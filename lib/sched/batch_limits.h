// The capacity of one batch.
#pragma once

#include <cstdint>
#include <limits>

namespace itif::sched {

// The rows that the planner fills: TCB's B rows of L tokens. A planner without rows has one of any
// length.
struct BatchRows {
  uint32_t number = 1;
  uint32_t tokens = std::numeric_limits<uint32_t>::max();  // of each
};

struct BatchLimits {
  uint32_t max_tokens = 4096;
  uint32_t max_requests = 256;
  BatchRows rows = {};
};

}  // namespace itif::sched
