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

  // Sender: these were the last, and nothing is offered any more.
  void end(const LiveCounts& counts, const Histogram& interval) noexcept {
    last_counts_ = counts;
    last_interval_.clear();
    last_interval_.merge(interval);
    ended_.store(true, std::memory_order_release);
  }

  // Printer: asks for the next report. REQUIRES: the last one has been taken.
  void ask() noexcept { asked_.store(true, std::memory_order_release); }
  // Printer: adds what the sender reported, or its last counts; false if it has not yet.
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

  std::atomic<bool> asked_{false};  // true: the two fields below are the sender's
  LiveCounts counts_;
  Histogram interval_;
  std::atomic<bool> ended_{false};  // false: these are the sender's
  LiveCounts last_counts_;
  Histogram last_interval_;
};

}  // namespace itif::loadgen
