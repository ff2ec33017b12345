// A hashed timer wheel over slot numbers of the owner's array: one timer per slot, set and
// cancelled in O(1). A timer expires in the first sweep after its tick has passed: up to one tick
// late, never early. A timer beyond the horizon (num_ticks ticks) is visited once per revolution.
// Allocates only at construction. One owner thread.
// Source: Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987, scheme 6.
#pragma once

#include <cstdint>
#include <vector>

#include "base/huge_vector.h"

namespace itif {

class TimerWheel {
 public:
  static constexpr uint32_t kNil = UINT32_MAX;

  struct Ticks {
    unsigned shift = 20;        // a tick is 2^shift ns
    uint32_t num_ticks = 1024;  // a multiple of 64
  };

  TimerWheel(uint32_t capacity, const Ticks& ticks, uint64_t now_ns = 0);

  // Sets the slot's timer, which may be set already. REQUIRES: slot < capacity.
  void set(uint32_t slot, uint64_t expiry_ns) noexcept;
  void cancel(uint32_t slot) noexcept;  // does nothing if not set
  bool is_set(uint32_t slot) const noexcept { return timers_[slot].list != kNil; }

  // Cancels and returns the next timer that expired up to now_ns; kNil if there is none. Timers may
  // be set and cancelled between two calls. A sweep is O(ticks passed + timers visited).
  uint32_t next_expired(uint64_t now_ns) noexcept;

  // Returns a time at which next_expired() has a timer to visit, at most one tick after the
  // earliest timer expires; UINT64_MAX without timers.
  uint64_t next_ns() const noexcept;

 private:
  struct Timer {
    uint64_t expiry_ns = 0;
    uint32_t next = kNil;
    uint32_t previous = kNil;
    uint32_t list = kNil;  // kNil: not set
  };

  const unsigned shift_;
  const uint32_t num_ticks_;
  HugeVector<Timer> timers_;
  std::vector<uint32_t> heads_;     // [num_ticks]
  std::vector<uint64_t> occupied_;  // a bit per list
  uint64_t current_tick_ = 0;       // all earlier ticks are done
  uint32_t cursor_ = kNil;          // next timer to visit in current_tick_, while walking_
  bool walking_ = false;
};

}  // namespace itif
