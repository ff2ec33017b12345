// The time window of rates and percentiles, which cover the last seconds only.
#include "serving/window.h"

#include <gtest/gtest.h>

namespace itif::serving {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Window::Reading reading(uint64_t responses, uint32_t tenant = 1) {
  Window::Reading now;
  now[tenant].responses = responses;
  return now;
}

TEST(Window, CountsFromTheStartUntilFull) {
  Window window(100 * kSecond);
  const Window::Recent recent = window.advance(102 * kSecond, reading(20));
  EXPECT_EQ(recent.interval_ns, 2 * kSecond);
  EXPECT_EQ(recent.since.at(1).responses, 20u);
}

// The counter rises by 10 per second; several reading intervals are tried.
TEST(Window, LooksBackFiveToTenSecondsAtASteadyPace) {
  for (const uint64_t period_ms : {100u, 1000u, 1700u, 4900u}) {
    Window window(0);
    for (uint64_t ms = period_ms; ms < 60'000; ms += period_ms) {
      const Window::Recent recent = window.advance(ms * 1'000'000, reading(ms / 100));
      if (ms > 10'000) {
        EXPECT_GE(recent.interval_ns, 5 * kSecond) << period_ms;
      }
      EXPECT_LE(recent.interval_ns, 10 * kSecond + period_ms * 1'000'000) << period_ms;
      const double rate = 1e9 * static_cast<double>(recent.since.at(1).responses) /
                          static_cast<double>(recent.interval_ns);
      EXPECT_NEAR(rate, 10, 0.5) << period_ms << " ms, at " << ms;
    }
  }
}

TEST(Window, ForgetsABurst) {
  Window window(0);
  window.advance(1 * kSecond, reading(1000));
  window.advance(6 * kSecond, reading(1000));
  window.advance(12 * kSecond, reading(1000));
  EXPECT_EQ(window.advance(18 * kSecond, reading(1000)).since.at(1).responses, 0u);
}

TEST(Window, NewTenantCountsFromZero) {
  Window window(0);
  window.advance(6 * kSecond, reading(50, 1));
  window.advance(12 * kSecond, reading(60, 1));
  Window::Reading both = reading(70, 1);
  both[2].responses = 5;
  const Window::Recent recent = window.advance(13 * kSecond, both);
  EXPECT_EQ(recent.since.at(1).responses, 20u);
  EXPECT_EQ(recent.since.at(2).responses, 5u);
  EXPECT_EQ(window.advance(14 * kSecond, reading(70, 1)).since.count(2), 0u)
      << "the tenant was removed";
}

}  // namespace
}  // namespace itif::serving
