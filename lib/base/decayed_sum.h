// A sum whose terms fade with time: what happened of late.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace itif {

// A term counts 1/e after kMemoryNs. Owned by one thread; `now_ns` of a monotonic clock.
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
