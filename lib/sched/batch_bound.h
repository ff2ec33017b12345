// How many tokens a batch may have so that tenants' latency objectives can be kept: additive increase,
// multiplicative decrease on the time that batches really took.
//
// A request that arrives just after a batch was launched waits for it and rides in the next: two batches
// must fit in the tightest objective, and a fifth of it is left for all else. With no objective there is
// no bound but the group's own.
//
// Source: adaptive batching in Crankshaw et al., "Clipper: a low-latency online prediction serving
// system", NSDI 2017, section 4.3.1; here in tokens, and lowered in proportion to how late a batch was.
// Owned by the executor's thread.
#pragma once

#include <cstdint>

namespace itif::sched {

class BatchBound {
 public:
  explicit BatchBound(uint32_t max_tokens) : max_tokens_(max_tokens), tokens_(max_tokens) {}

  // Of the next batch, under the objective of `slo_ns` (0: none).
  uint32_t tokens(uint64_t slo_ns) noexcept {
    if (slo_ns == 0) tokens_ = max_tokens_;
    return tokens_;
  }
  // What a batch took, under that objective.
  void ran(uint32_t num_tokens, uint64_t execute_ns, uint64_t slo_ns) noexcept;

 private:
  uint32_t max_tokens_;
  uint32_t tokens_;
};

}  // namespace itif::sched
