#include "net/timer_wheel.h"

#include <algorithm>

#include "base/check.h"

namespace itif::net {

TimerWheel::TimerWheel(uint32_t capacity) : timers_(capacity), heads_(kNumTicks, kNil) {}

void TimerWheel::schedule(uint32_t slot, uint64_t expiry_ns, uint64_t now_ns) noexcept {
  DCHECK(!scheduled(slot));
  const uint64_t now_tick = now_ns >> kTickShift;
  if (!started_) {
    current_tick_ = now_tick;
    started_ = true;
  }
  // Never into a list that is being walked or done: that would wait a whole turn.
  const auto list = static_cast<uint32_t>(std::max(expiry_ns >> kTickShift, now_tick) % kNumTicks);
  Timer& timer = timers_[slot];
  timer = {expiry_ns, heads_[list], kNil, list};
  if (timer.next != kNil) timers_[timer.next].previous = slot;
  heads_[list] = slot;
}

void TimerWheel::cancel(uint32_t slot) noexcept {
  Timer& timer = timers_[slot];
  if (timer.tick == kNil) return;
  if (cursor_ == slot) cursor_ = timer.next;
  if (timer.next != kNil) timers_[timer.next].previous = timer.previous;
  if (timer.previous != kNil)
    timers_[timer.previous].next = timer.next;
  else
    heads_[timer.tick] = timer.next;
  timer.tick = kNil;
}

uint32_t TimerWheel::next_expired(uint64_t now_ns) noexcept {
  const uint64_t now_tick = now_ns >> kTickShift;
  if (!started_ || current_tick_ >= now_tick) return kNil;
  if (now_tick - current_tick_ > kNumTicks) {  // after a long pause each list needs one look
    current_tick_ = now_tick - kNumTicks;
    walking_ = false;
  }
  for (; current_tick_ < now_tick; ++current_tick_) {
    if (!walking_) {
      cursor_ = heads_[current_tick_ % kNumTicks];
      walking_ = true;
    }
    while (cursor_ != kNil) {
      const uint32_t slot = cursor_;
      cursor_ = timers_[slot].next;
      if (timers_[slot].expiry_ns <= now_ns) {
        cancel(slot);
        return slot;
      }
    }
    walking_ = false;
  }
  return kNil;
}

}  // namespace itif::net
