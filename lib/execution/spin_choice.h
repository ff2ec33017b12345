// Chooses how a group's compute pool waits between operators: by spinning, or by sleeping early.
//
// Only a group that shares its CPUs with workers uses it (pipeline/lcores.h). Spinning makes
// batches faster while the workers have nothing else to do. In a flood, spinning threads take the
// CPU time that the workers need to drop datagrams. device/host/pool_wait.h has the measurements.
//
// The pool sleeps early while more than kFloodPerS datagrams and requests per second are dropped or
// refused. Repeats count as dropped: they take as much of the workers' time. The pool spins again
// after kCalmNs below half of that rate. Waiting requests are not counted: a pool that spins serves
// clients that wait for their answers faster.
//
// Owned by the group's thread, which asks in each poll while requests wait. Reads no clock.
#pragma once

#include <cstdint>

namespace itif::execution {

class SpinChoice {
 public:
  static constexpr uint64_t kFloodPerS = 500;
  static constexpr uint64_t kWindowNs = 20'000'000;  // a rate is measured over at least this time
  static constexpr uint64_t kCalmNs = 1'000'000'000;

  // Returns true if a window has ended: measure() wants the present count.
  bool wants_count(uint64_t now_ns) const noexcept { return now_ns - window_ns_ >= kWindowNs; }

  // `unserved`: datagrams that the workers dropped, repeats included, and requests refused by the
  // group, since the start.
  void measure(uint64_t now_ns, uint64_t unserved) noexcept {
    // Multiplies instead of dividing, to be exact. The product overflows after 1.8e10 events
    // without a batch (5 hours at a million per second). One window is then misjudged.
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

}  // namespace itif::execution
