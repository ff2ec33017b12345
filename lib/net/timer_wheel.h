// When which context expires: a hashed timer wheel over slot numbers of the owner's array.
//
// A tick is 2^20 ns (1.05 ms); a timer fires in the first sweep after its tick has passed, so
// up to one tick late and never early. Scheduling and cancelling are O(1), a sweep is O(ticks
// passed + timers met). Timers beyond the wheel's 1.07 s are met once a turn and left. Allocates at
// construction only. One owner thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace itif::net {

class TimerWheel {
 public:
  static constexpr unsigned kTickShift = 20;
  static constexpr uint32_t kNumTicks = 1024;
  static constexpr uint32_t kNil = UINT32_MAX;

  explicit TimerWheel(uint32_t capacity);
  // REQUIRES: slot < capacity and not scheduled.
  void schedule(uint32_t slot, uint64_t expiry_ns, uint64_t now_ns) noexcept;
  void cancel(uint32_t slot) noexcept;  // harmless if not scheduled
  bool scheduled(uint32_t slot) const noexcept { return timers_[slot].tick != kNil; }

  // The next timer that has expired, no longer scheduled, or kNil when there is none up to now_ns.
  uint32_t next_expired(uint64_t now_ns) noexcept;

 private:
  struct Timer {
    uint64_t expiry_ns = 0;
    uint32_t next = kNil;
    uint32_t previous = kNil;
    uint32_t tick = kNil;  // the list it is in
  };

  std::vector<Timer> timers_;
  std::vector<uint32_t> heads_;
  uint64_t current_tick_ = 0;  // every tick before it is done
  uint32_t cursor_ = kNil;     // next timer to look at in current_tick_, while walking it
  bool walking_ = false;
  bool started_ = false;
};

}  // namespace itif::net
