// How a sending thread shows its progress to the thread that prints the live line.
//
// The sender owns its counters and an interval histogram. The printer asks once a second; the sender
// copies both over at its next turn. Neither waits for the other, so printing never delays sending.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/histogram.h"

namespace itif::loadgen {

struct LiveCounts {
  uint64_t sent = 0;
  uint64_t answered = 0;
  uint64_t lost = 0;
  uint64_t refused = 0;
  uint32_t in_flight = 0;
  bool warming_up = false;
};

class LiveFeed {
 public:
  // Sender: counts since the start, and the latencies since the last time. True if it was asked; then
  // `interval` has been emptied.
  bool offer(const LiveCounts& counts, Histogram& interval) noexcept {
    if (!asked_.load(std::memory_order_acquire)) return false;
    counts_ = counts;
    interval_.clear();
    interval_.merge(interval);
    interval.clear();
    asked_.store(false, std::memory_order_release);
    return true;
  }

  // Printer: asks for the next report. REQUIRES: the last one has been taken.
  void ask() noexcept { asked_.store(true, std::memory_order_release); }
  // Printer: adds what the sender reported; false if it has not yet.
  bool take(LiveCounts& counts, Histogram& interval) const noexcept {
    if (asked_.load(std::memory_order_acquire)) return false;
    counts.sent += counts_.sent;
    counts.answered += counts_.answered;
    counts.lost += counts_.lost;
    counts.refused += counts_.refused;
    counts.in_flight += counts_.in_flight;
    counts.warming_up |= counts_.warming_up;
    interval.merge(interval_);
    return true;
  }

 private:
  std::atomic<bool> asked_{false};  // true: the fields below are the sender's
  LiveCounts counts_;
  Histogram interval_;
};

}  // namespace itif::loadgen
