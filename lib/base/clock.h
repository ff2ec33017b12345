// Time is injected: code in lib/ takes a Clock, so that tests and simulations can run the same
// stages on a virtual clock. Only clock.cc may read the system's clocks.
#pragma once

#include <atomic>
#include <cstdint>

namespace itif {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary fixed point; never goes back.
  virtual uint64_t now_ns() const noexcept = 0;
  // Nanoseconds since 1970-01-01 UTC, for records that outlive the process.
  virtual uint64_t unix_ns() const noexcept = 0;
};

// CLOCK_MONOTONIC (a vDSO call, about 20 ns) and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  uint64_t now_ns() const noexcept override;
  uint64_t unix_ns() const noexcept override;
};

// Advances only by advance_ns(). Thread-safe.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(uint64_t start_ns = 1'000'000'000) : now_ns_(start_ns) {}
  uint64_t now_ns() const noexcept override { return now_ns_.load(std::memory_order_acquire); }
  uint64_t unix_ns() const noexcept override { return now_ns(); }
  void advance_ns(uint64_t ns) noexcept { now_ns_.fetch_add(ns, std::memory_order_acq_rel); }

 private:
  std::atomic<uint64_t> now_ns_;
};

}  // namespace itif
