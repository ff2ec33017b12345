// A sum whose terms decay exponentially with time: a measure of recent events.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace itif {

// A term's weight falls to 1/e after kMemoryNs. One owner thread; `now_ns` is of a monotonic clock.
class DecayedSum {
 public:
  static constexpr double kMemoryNs = 10e9;

  void add(double term, uint64_t now_ns) noexcept {
    sum_ = at(now_ns) + term;
    at_ns_ = std::max(at_ns_, now_ns);
  }
  double at(uint64_t now_ns) const noexcept {
    if (now_ns <= at_ns_) return sum_;
    return sum_ * std::exp(-static_cast<double>(now_ns - at_ns_) / kMemoryNs);
  }

 private:
  double sum_ = 0;
  uint64_t at_ns_ = 0;
};

}  // namespace itif
