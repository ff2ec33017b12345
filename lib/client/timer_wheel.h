// One timer a slot, set and cancelled in O(1): a hashed wheel. A timer further away than the wheel's
// horizon stays in its bucket and is looked at once a turn. Fires up to one tick late, never early.
// Source: Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987, scheme 6.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "client/index_list.h"

namespace itif::client {

class TimerWheel {
 public:
  static constexpr uint32_t kTickShift = 17;     // 131 µs
  static constexpr uint32_t kNumBuckets = 2048;  // horizon 268 ms

  TimerWheel(uint32_t num_slots, uint64_t now_ns)
      : lists_(kNumBuckets + 1, num_slots), due_ns_(num_slots), tick_(now_ns >> kTickShift) {}

  void set(uint32_t slot, uint64_t due_ns) noexcept {
    cancel(slot);
    due_ns_[slot] = due_ns;
    link(slot);
  }

  void cancel(uint32_t slot) noexcept {
    const uint32_t bucket = lists_.list_of(slot);
    lists_.remove(slot);
    if (bucket < kNumBuckets && lists_.empty(bucket)) unmark(bucket);
  }

  // Calls fire(slot) for every timer that is due; fire may set and cancel any timer.
  template <class Fire>
  void advance(uint64_t now_ns, Fire&& fire) noexcept {
    const uint64_t now_tick = now_ns >> kTickShift;
    const uint64_t last = std::min(now_tick, tick_ + kNumBuckets - 1);
    // From here on link() uses no bucket before the current tick's, which the next call looks at
    // again: what fire() sets for now is never left behind for a whole turn.
    const uint64_t first = std::exchange(tick_, std::max(now_tick, tick_));
    for (uint64_t tick = first; tick <= last; ++tick) {
      const uint32_t bucket = tick % kNumBuckets;
      if (lists_.empty(bucket)) continue;
      unmark(bucket);
      for (uint32_t slot; (slot = lists_.front(bucket)) != IndexLists::kNone;) {
        lists_.remove(slot);
        lists_.push_back(kExamined, slot);
      }
      for (uint32_t slot; (slot = lists_.front(kExamined)) != IndexLists::kNone;) {
        lists_.remove(slot);
        if (due_ns_[slot] <= now_ns)
          fire(slot);
        else
          link(slot);
      }
    }
  }

  // A time at which advance() has something to look at, at most a tick after the earliest timer is
  // due; UINT64_MAX without timers.
  uint64_t next_ns() const noexcept {
    const uint32_t start = tick_ % kNumBuckets;
    for (uint32_t i = 0; i <= kNumWords; ++i) {
      const uint32_t word = (start / 64 + i) % kNumWords;
      uint64_t bits = occupied_[word];
      if (i == 0) bits &= ~uint64_t{0} << (start % 64);
      if (i == kNumWords) bits &= ~(~uint64_t{0} << (start % 64));
      if (bits == 0) continue;
      const uint32_t bucket = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
      const uint32_t ahead = (bucket - start) % kNumBuckets;
      return (tick_ + ahead + 1) << kTickShift;
    }
    return UINT64_MAX;
  }

 private:
  static constexpr uint32_t kExamined = kNumBuckets;  // list of the bucket that advance() empties
  static constexpr uint32_t kNumWords = kNumBuckets / 64;

  void link(uint32_t slot) noexcept {
    const uint64_t tick = std::max(due_ns_[slot] >> kTickShift, tick_);
    const uint32_t bucket = tick % kNumBuckets;
    lists_.push_back(bucket, slot);
    occupied_[bucket / 64] |= uint64_t{1} << (bucket % 64);
  }
  void unmark(uint32_t bucket) noexcept {
    occupied_[bucket / 64] &= ~(uint64_t{1} << (bucket % 64));
  }

  IndexLists lists_;
  std::vector<uint64_t> due_ns_;
  std::array<uint64_t, kNumWords> occupied_{};
  uint64_t tick_;  // the first tick that advance() has not finished
};

}  // namespace itif::client
