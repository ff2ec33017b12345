// What a batch costs, learnt from the batches of late: fixed + per_token · tokens. The fixed part is
// what reading the weights costs, and most of a small batch; a figure per token alone would carry it
// over to large ones and refuse what could well be computed.
//
// Owned by the executor's thread. A weighted least-squares line over decayed sums: a batch counts half
// after some 13 others.
#pragma once

#include <cstdint>

namespace itif::runtime {

class CostEstimate {
 public:
  // A batch that ran. The first of all is not counted: it finds caches and pages cold.
  void add(uint32_t num_tokens, uint64_t execute_ns) noexcept;
  // Nothing ran because every request was refused for what it would cost: were the estimate wrong, it
  // could never be corrected. Each call lowers it by a tenth.
  void distrust() noexcept;

  // Of one batch; 0 as long as nothing is known. Beyond the sizes that were seen it errs downwards:
  // what is refused by it could not have been computed in time.
  double batch_ns(uint32_t num_tokens) const noexcept;
  // The largest batch that takes no longer; as many as there are as long as nothing is known.
  uint32_t tokens_within(uint64_t ns) const noexcept;
  // Of so many tokens in batches of at most max_tokens, num_batches of them at least.
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
