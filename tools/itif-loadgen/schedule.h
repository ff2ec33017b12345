// The intended send times of requests, from which latency is measured. They do not depend on the
// fate of earlier requests.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace itif::loadgen {

class Schedule {
 public:
  // The schedule of thread `share` of `num_shares`, at rate / num_shares. Constant arrivals of the
  // threads interleave; their Poisson processes add up to one process.
  Schedule(bool poisson, double rate, uint64_t start_ns, uint32_t share, uint32_t num_shares,
           uint64_t seed) noexcept
      : poisson_(poisson), gap_ns_(1e9 * num_shares / rate), random_(seed) {
    start_ns_ = static_cast<double>(start_ns);
    offset_ns_ = poisson ? random_.exponential() * gap_ns_ : gap_ns_ * share / num_shares;
  }

  // Time of the next request.
  uint64_t next_ns() const noexcept { return static_cast<uint64_t>(start_ns_ + offset_ns_); }
  void advance() noexcept { offset_ns_ += poisson_ ? random_.exponential() * gap_ns_ : gap_ns_; }

 private:
  bool poisson_;
  double gap_ns_;
  double start_ns_;
  double offset_ns_;  // from the start: a sum of gaps; 53 bits cover 100 days in ns
  Random random_;
};

}  // namespace itif::loadgen
