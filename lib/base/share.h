// How much of a bounded resource one of its users may take, so that none can take it from the others.
//
// Source: dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
// packet switches", IEEE/ACM Transactions on Networking, 1998) with a factor of 1: a user may hold as
// much as is still free. One greedy user then gets half, k of them k/(k+1), and what stays free is as
// much as each of them has: a newcomer always finds room.
#pragma once

#include <cstdint>

namespace itif {

// Whether a user that holds `own` of the `used` may take `amount` more. REQUIRES: own ≤ used.
constexpr bool within_share(uint64_t own, uint64_t amount, uint64_t used, uint64_t capacity) {
  return used < capacity && own + amount <= capacity - used;
}

}  // namespace itif
