// Bounds the tokens of a batch so that tenants meet their latency objectives: additive increase,
// multiplicative decrease on measured batch times.
//
// A request that arrives just after a launch waits for that batch and rides in the next one. Two
// batches must therefore fit in the tightest objective; a fifth of it is left for everything else.
// Without an objective only the group's own limit applies.
//
// Source: adaptive batching in Crankshaw et al., "Clipper: a low-latency online prediction serving
// system", NSDI 2017, section 4.3.1. Here the bound counts tokens, and falls in proportion to how
// late a batch was.
// Owned by the executor's thread.
#pragma once

#include <cstdint>

namespace itif::sched {

class BatchBound {
 public:
  explicit BatchBound(uint32_t max_tokens) : max_tokens_(max_tokens), tokens_(max_tokens) {}

  // Returns the next batch's bound under the objective `slo_ns` (0: none).
  uint32_t tokens(uint64_t slo_ns) noexcept {
    if (slo_ns == 0) tokens_ = max_tokens_;
    return tokens_;
  }
  // Adapts the bound to a batch that ran under that objective.
  void ran(uint32_t num_tokens, uint64_t execute_ns, uint64_t slo_ns) noexcept;

 private:
  uint32_t max_tokens_;
  uint32_t tokens_;
};

}  // namespace itif::sched
