// Chooses how a group's compute pool waits between operators: by spinning, or by sleeping early.
//
// Only for a group that shares its CPUs with workers (lcores.h). Spinning makes batches faster on
// rested cores, and while every core waits for the batch anyway: all clients wait for answers, and
// the workers for requests. In a flood, datagrams keep arriving that no batch will serve, and the
// pool's spinning takes the time that the workers need to drop them. device/host/pool_wait.h has
// the measurements.
//
// So the pool sleeps early while more than kFloodPerS datagrams and requests per second are dropped
// or refused. It spins again after kCalmNs below half of that. The number of waiting requests does
// not count: many clients that wait for answers are served faster by a pool that spins.
//
// One owner thread, which asks before each batch. No clock of its own.
#pragma once

#include <cstdint>

namespace itif::pipeline {

class SpinChoice {
 public:
  static constexpr uint64_t kFloodPerS = 500;
  static constexpr uint64_t kWindowNs = 20'000'000;  // a rate is measured over at least this time
  static constexpr uint64_t kCalmNs = 1'000'000'000;

  // Returns true if a window has ended: measure() wants the present count.
  bool wants_count(uint64_t now_ns) const noexcept { return now_ns - window_ns_ >= kWindowNs; }

  // `unserved`: datagrams dropped by the workers and requests refused by the group since the start.
  void measure(uint64_t now_ns, uint64_t unserved) noexcept {
    // Multiplied, not divided: exact. A count of 2^40 in a window does not occur.
    const uint64_t events_ns = (unserved - unserved_) * 1'000'000'000;
    const uint64_t elapsed_ns = now_ns - window_ns_;
    if (is_first_) {
      is_first_ = false;
    } else if (events_ns > kFloodPerS * elapsed_ns) {
      sleeps_early_ = true;
      flooded_ns_ = now_ns;
    } else if (events_ns > kFloodPerS / 2 * elapsed_ns) {
      flooded_ns_ = now_ns;
    } else if (now_ns - flooded_ns_ >= kCalmNs) {
      sleeps_early_ = false;
    }
    window_ns_ = now_ns;
    unserved_ = unserved;
  }

  bool sleeps_early() const noexcept { return sleeps_early_; }

 private:
  bool is_first_ = true;
  bool sleeps_early_ = false;
  uint64_t window_ns_ = 0;   // start of the window
  uint64_t unserved_ = 0;    // at that time
  uint64_t flooded_ns_ = 0;  // end of the last window with a flood
};

}  // namespace itif::pipeline
