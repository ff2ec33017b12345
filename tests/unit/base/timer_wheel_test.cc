#include "base/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"

namespace itif {
namespace {

constexpr TimerWheel::Ticks kTicks{.shift = 20, .num_ticks = 1024};
constexpr uint64_t kTick = uint64_t{1} << kTicks.shift;

TEST(TimerWheel, FiresOnceAfterItsTickAndNeverEarly) {
  TimerWheel wheel(4, kTicks);
  const uint64_t start = 100 * kTick;
  wheel.set(2, start + 10 * kTick + 5);
  EXPECT_TRUE(wheel.is_set(2));
  EXPECT_EQ(wheel.next_expired(start + 10 * kTick + 5), TimerWheel::kNil);
  EXPECT_EQ(wheel.next_expired(start + 11 * kTick), 2u);
  EXPECT_FALSE(wheel.is_set(2));
  EXPECT_EQ(wheel.next_expired(start + 12 * kTick), TimerWheel::kNil);
}

TEST(TimerWheel, TimersMayBeSetAndCancelledBetweenTwoThatExpire) {
  TimerWheel wheel(4, kTicks);
  for (const uint32_t slot : {2u, 1u, 0u}) wheel.set(slot, 1000);
  EXPECT_EQ(wheel.next_expired(2 * kTick), 0u);
  wheel.cancel(1);
  wheel.set(3, 10);  // already expired: fires one tick later
  wheel.set(0, 500 * kTick);
  EXPECT_EQ(wheel.next_expired(2 * kTick), 2u);
  EXPECT_EQ(wheel.next_expired(3 * kTick), 3u);
  EXPECT_EQ(wheel.next_expired(499 * kTick), TimerWheel::kNil);
  EXPECT_EQ(wheel.next_expired(502 * kTick), 0u);
  EXPECT_EQ(wheel.next_expired(9000 * kTick), TimerWheel::kNil);
}

// Every timer fires in the first sweep after its tick, and next_ns() is never later than that.
TEST(TimerWheel, AgreesWithASortedMap) {
  constexpr uint32_t kSlots = 200;
  Random random(3);
  uint64_t now = 1'000'000'000'000;
  TimerWheel wheel(kSlots, kTicks, now);
  std::map<uint32_t, uint64_t> model;  // slot → expiry, or the time it was set if that is later
  for (int step = 0; step < 100'000; ++step) {
    const auto slot = static_cast<uint32_t>(random.below(kSlots));
    if (random.below(3) == 0) {
      wheel.cancel(slot);
      model.erase(slot);
    } else {
      // In the past, near, and more than one turn of the wheel ahead.
      const uint64_t ahead = random.below(random.below(3) == 0 ? 5'000 * kTick : 50 * kTick);
      const uint64_t expiry = random.below(20) == 0 ? now - ahead / 8 : now + ahead;
      wheel.set(slot, expiry);
      model[slot] = std::max(expiry, now);
    }
    if (model.empty()) {
      ASSERT_EQ(wheel.next_ns(), UINT64_MAX);
    } else {
      uint64_t earliest = UINT64_MAX;
      for (const auto& [s, expiry] : model) earliest = std::min(earliest, expiry);
      ASSERT_LE(wheel.next_ns(), std::max(earliest, now) + 2 * kTick);
    }
    now += random.below(random.below(500) == 0 ? 3'000 * kTick : kTick);
    // Leave some expired slots for the next round, as a caller with a small batch does.
    for (uint64_t take = random.below(6); take > 0; --take) {
      const uint32_t fired = wheel.next_expired(now);
      if (fired == TimerWheel::kNil) {
        for (const auto& [left, expiry] : model) ASSERT_GT(expiry + 2 * kTick, now) << left;
        break;
      }
      ASSERT_TRUE(model.count(fired));
      ASSERT_LE(model[fired], now);
      model.erase(fired);
    }
  }
  now += 10'000 * kTick;
  for (uint32_t fired; (fired = wheel.next_expired(now)) != TimerWheel::kNil;) model.erase(fired);
  EXPECT_TRUE(model.empty());
}

}  // namespace
}  // namespace itif
