// When requests are due, whatever has become of those before: the intended times from which latency
// is measured.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace itif::loadgen {

class Schedule {
 public:
  // `share` of `num_shares` threads, each at rate / num_shares: constant arrivals interleave, and
  // Poisson processes add up to one.
  Schedule(bool poisson, double rate, uint64_t start_ns, uint32_t share, uint32_t num_shares,
           uint64_t seed) noexcept
      : poisson_(poisson), gap_ns_(1e9 * num_shares / rate), random_(seed) {
    start_ns_ = static_cast<double>(start_ns);
    offset_ns_ = poisson ? random_.exponential() * gap_ns_ : gap_ns_ * share / num_shares;
  }

  // When the next request is due.
  uint64_t next_ns() const noexcept { return static_cast<uint64_t>(start_ns_ + offset_ns_); }
  void advance() noexcept { offset_ns_ += poisson_ ? random_.exponential() * gap_ns_ : gap_ns_; }

 private:
  bool poisson_;
  double gap_ns_;
  double start_ns_;
  double offset_ns_;  // from the start: a sum of gaps; 53 bits are 100 days at 1 ns
  Random random_;
};

}  // namespace itif::loadgen
