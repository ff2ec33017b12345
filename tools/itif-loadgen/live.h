// Passes progress from a sending thread to the thread that prints the live line.
//
// The sender owns its counters and an interval histogram. The printer asks for them once a second;
// the sender copies both in its next step. Neither waits for the other, so printing never delays
// sending.
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
  // Sender: offers counts since the start, and latencies since the last report. If the printer has
  // asked, copies them, clears `interval` and returns true.
  bool offer(const LiveCounts& counts, Histogram& interval) noexcept {
    if (!asked_.load(std::memory_order_acquire)) return false;
    counts_ = counts;
    interval_.clear();
    interval_.merge(interval);
    interval.clear();
    asked_.store(false, std::memory_order_release);
    return true;
  }

  // Sender: sets the final counts. REQUIRES: no call of offer() follows.
  void end(const LiveCounts& counts, const Histogram& interval) noexcept {
    last_counts_ = counts;
    last_interval_.clear();
    last_interval_.merge(interval);
    ended_.store(true, std::memory_order_release);
  }

  // Printer: asks for the next report. REQUIRES: the previous report was taken.
  void ask() noexcept { asked_.store(true, std::memory_order_release); }
  // Printer: adds the sender's report or, after end(), its final counts. Returns false if there is
  // no report yet.
  bool take(LiveCounts& counts, Histogram& interval) noexcept {
    if (ended_.load(std::memory_order_acquire)) {
      add(counts, last_counts_);
      interval.merge(last_interval_);
      last_interval_.clear();
      return true;
    }
    if (asked_.load(std::memory_order_acquire)) return false;
    add(counts, counts_);
    interval.merge(interval_);
    return true;
  }

 private:
  static void add(LiveCounts& sum, const LiveCounts& one) noexcept {
    sum.sent += one.sent;
    sum.answered += one.answered;
    sum.lost += one.lost;
    sum.refused += one.refused;
    sum.in_flight += one.in_flight;
    sum.warming_up |= one.warming_up;
  }

  std::atomic<bool> asked_{false};  // true: the sender owns the next two fields
  LiveCounts counts_;
  Histogram interval_;
  std::atomic<bool> ended_{false};  // false: the sender owns the next two fields
  LiveCounts last_counts_;
  Histogram last_interval_;
};

}  // namespace itif::loadgen
