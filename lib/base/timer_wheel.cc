#include "base/timer_wheel.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace itif {

TimerWheel::TimerWheel(uint32_t capacity, const Ticks& ticks, uint64_t now_ns)
    : shift_(ticks.shift),
      num_ticks_(ticks.num_ticks),
      timers_(capacity),
      heads_(ticks.num_ticks, kNil),
      occupied_(ticks.num_ticks / 64),
      current_tick_(now_ns >> ticks.shift) {
  CHECK(ticks.num_ticks > 0 && ticks.num_ticks % 64 == 0);
}

void TimerWheel::set(uint32_t slot, uint64_t expiry_ns) noexcept {
  cancel(slot);
  // A list that is being visited or done is visited again only after a whole revolution.
  const uint64_t tick = std::max(expiry_ns >> shift_, current_tick_ + walking_);
  const auto list = static_cast<uint32_t>(tick % num_ticks_);
  timers_[slot] = {expiry_ns, heads_[list], kNil, list};
  if (heads_[list] != kNil) timers_[heads_[list]].previous = slot;
  heads_[list] = slot;
  occupied_[list / 64] |= uint64_t{1} << (list % 64);
}

void TimerWheel::cancel(uint32_t slot) noexcept {
  Timer& timer = timers_[slot];
  if (timer.list == kNil) return;
  if (cursor_ == slot) cursor_ = timer.next;
  if (timer.next != kNil) timers_[timer.next].previous = timer.previous;
  if (timer.previous != kNil)
    timers_[timer.previous].next = timer.next;
  else
    heads_[timer.list] = timer.next;
  if (heads_[timer.list] == kNil) occupied_[timer.list / 64] &= ~(uint64_t{1} << (timer.list % 64));
  timer.list = kNil;
}

uint32_t TimerWheel::next_expired(uint64_t now_ns) noexcept {
  const uint64_t now_tick = now_ns >> shift_;
  if (current_tick_ >= now_tick) return kNil;
  if (now_tick - current_tick_ > num_ticks_) {  // after a long pause, visit each list once
    current_tick_ = now_tick - num_ticks_;
    walking_ = false;
  }
  for (; current_tick_ < now_tick; ++current_tick_) {
    if (!walking_) {
      cursor_ = heads_[current_tick_ % num_ticks_];
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

uint64_t TimerWheel::next_ns() const noexcept {
  const uint32_t num_words = num_ticks_ / 64;
  const auto start = static_cast<uint32_t>(current_tick_ % num_ticks_);
  for (uint32_t i = 0; i <= num_words; ++i) {
    const uint32_t word = (start / 64 + i) % num_words;
    uint64_t bits = occupied_[word];
    if (i == 0) bits &= ~uint64_t{0} << (start % 64);
    if (i == num_words) bits &= ~(~uint64_t{0} << (start % 64));
    if (bits == 0) continue;
    const uint32_t list = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
    const uint32_t ahead = (list + num_ticks_ - start) % num_ticks_;
    return (current_tick_ + ahead + 1) << shift_;
  }
  return UINT64_MAX;
}

}  // namespace itif
