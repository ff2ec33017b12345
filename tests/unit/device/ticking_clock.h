// A clock that advances by 1 ns at every read on any thread, so that no timed call takes 0 ns.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace itif::device {

class TickingClock final : public Clock {
 public:
  uint64_t now_ns() const noexcept override { return ++ns_; }
  uint64_t unix_ns() const noexcept override { return ns_; }

 private:
  mutable std::atomic<uint64_t> ns_ = 0;
};

}  // namespace itif::device
