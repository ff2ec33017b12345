// Counts the tokens of a batch in whole rows, for planners with rows of fixed length (plan/concat):
// a row costs the same however full it is. So a batch costs at least its tokens, rounded up to
// rows. Without such rows it changes nothing.
// Owned by the executor's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sched/batch_costs.h"
#include "sched/batch_limits.h"

namespace itif::runtime {

class CostInRows final : public sched::BatchCost {
 public:
  // `cost`, which outlives this object, has learnt from batches whose tokens include the padding of
  // their rows.
  explicit CostInRows(const sched::BatchCost& cost) : cost_(cost) {}

  void use_rows(const sched::BatchRows& rows) noexcept {
    row_tokens_ = rows.have_length() ? rows.tokens : 1;
  }
  double batch_ns(uint32_t num_tokens) const noexcept override {
    const uint64_t rows = (uint64_t{num_tokens} + row_tokens_ - 1) / row_tokens_;
    return cost_.batch_ns(
        static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, rows * row_tokens_)));
  }
  // At least one row, since no batch is smaller.
  uint32_t tokens_within(uint64_t ns) const noexcept override {
    const uint32_t tokens = cost_.tokens_within(ns);
    return row_tokens_ == 1 ? tokens : std::max(row_tokens_, tokens / row_tokens_ * row_tokens_);
  }
  uint32_t efficient_tokens(uint32_t max_tokens) const noexcept override {
    return cost_.efficient_tokens(max_tokens);
  }

 private:
  const sched::BatchCost& cost_;
  uint32_t row_tokens_ = 1;
};

}  // namespace itif::runtime
