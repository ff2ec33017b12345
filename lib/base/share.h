// Limits one user's share of a bounded resource, so that no user can starve the others.
//
// Source: dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
// shared-memory packet switches", IEEE/ACM Transactions on Networking, 1998) with a factor of 1: a
// user may hold at most as much as is free. One greedy user then gets half; k greedy users get
// k/(k+1) together, and the free rest equals the share of each. A new user always finds room.
#pragma once

#include <cstdint>

namespace itif {

// Returns true if a user that holds `own` of the `used` units may take `amount` more.
// REQUIRES: own ≤ used.
constexpr bool within_share(uint64_t own, uint64_t amount, uint64_t used, uint64_t capacity) {
  return used < capacity && own + amount <= capacity - used;
}

}  // namespace itif
