// Bounds the throughput that a group loses to small batches of urgent requests (urgent.h).
//
// Each batch has a fixed cost: launches, and reading the weights. A batch that is much smaller than
// an efficient one (BatchCost::efficient_tokens) wastes most of it. Urgent requests may have such
// batches of their own while these waste at most kMostPart of the time. Beyond that, other requests
// must fill their batches.
//
// Owned by the executor's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sched/batch_costs.h"

namespace itif::sched {

class SmallBatches {
 public:
  static constexpr double kMostPart = 0.03;

  // Returns true if the next batch may be small.
  bool allowed(uint64_t now_ns) noexcept {
    const uint64_t passed_ns = now_ns - std::min(now_ns, last_ns_);
    last_ns_ = now_ns;
    left_ns_ = std::min(kMostLeftNs, left_ns_ + kMostPart * static_cast<double>(passed_ns));
    return left_ns_ > 0;
  }
  // Charges the time that a chosen batch will waste. REQUIRES: the batch leaves requests waiting.
  void charge(uint32_t num_tokens, uint32_t efficient_tokens, const BatchCost& cost) noexcept {
    if (num_tokens >= efficient_tokens) return;
    const double part = 1 - static_cast<double>(num_tokens) / efficient_tokens;
    left_ns_ -= part * cost.batch_ns(num_tokens);
  }

 private:
  static constexpr double kMostLeftNs = 30e6;  // the allowance of one second

  double left_ns_ = kMostLeftNs;
  uint64_t last_ns_ = 0;
};

}  // namespace itif::sched
