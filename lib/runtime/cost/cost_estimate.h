// Cost of a batch, learnt from recent batches: fixed + per_token · tokens. The fixed part is the
// cost of reading the weights, and most of a small batch. A figure per token alone would scale it
// up for large batches and refuse requests that could be computed in time.
//
// Owned by the executor's thread. A weighted least-squares line over decayed sums: a batch's weight
// halves after about 13 others.
#pragma once

#include <cstdint>

#include "sched/batch_costs.h"

namespace itif::runtime {

class CostEstimate final : public sched::BatchCost {
 public:
  // Learns from a batch that ran. Skips the very first, which finds caches and pages cold.
  void add(uint32_t num_tokens, uint64_t execute_ns) noexcept;
  // Lowers the estimate by a tenth. Called when the estimate refused every request, so that nothing
  // ran: a wrong estimate could otherwise never be corrected.
  void distrust() noexcept;

  // Unknown before the first measurement. Errs low beyond the sizes seen: a request that it refuses
  // could not have been computed in time.
  double batch_ns(uint32_t num_tokens) const noexcept override;
  uint32_t tokens_within(uint64_t ns) const noexcept override;
  // Returns the cost of num_tokens in batches of at most max_tokens, at least num_batches of them.
  double backlog_ns(double num_tokens, double num_batches, uint32_t max_tokens) const noexcept;

 private:
  struct Line {
    double fixed_ns = 0;
    double per_token_ns = 0;
  };
  Line line() const noexcept;

  bool warm_ = false;
  double count_ = 0, tokens_ = 0, tokens_squared_ = 0, ns_ = 0, tokens_ns_ = 0;
};

}  // namespace itif::runtime
