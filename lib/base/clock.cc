#include "base/clock.h"

#include <ctime>

namespace itif {
namespace {

uint64_t read_ns(clockid_t id) noexcept {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

uint64_t SystemClock::now_ns() const noexcept { return read_ns(CLOCK_MONOTONIC); }
uint64_t SystemClock::unix_ns() const noexcept { return read_ns(CLOCK_REALTIME); }

}  // namespace itif
