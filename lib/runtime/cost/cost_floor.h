// The least time that batches of each size have taken: their cost on an undisturbed machine.
//
// A mean (cost_estimate.h) predicts when a batch ends, but it grows with all other load on the
// machine. A bound derived from it would yield to the very flood that it must hold back. Forgets
// slowly: a figure that does not recur fades within some hundred batches of its size.
// Owned by the executor's thread.
#pragma once

#include <array>
#include <cstdint>

#include "sched/batch_costs.h"

namespace itif::runtime {

class CostFloor final : public sched::BatchCost {
 public:
  // Learns from a batch that ran. REQUIRES: num_tokens > 0.
  void add(uint32_t num_tokens, uint64_t execute_ns) noexcept;
  // Unknown before the first measurement. A size not seen is scaled from the next larger size seen,
  // else from the largest. Returns whole nanoseconds.
  double batch_ns(uint32_t num_tokens) const noexcept override;
  // A size that took longer forbids itself and larger ones, until kRetry batches of other sizes
  // have run. Then it may be tried again: its only batch may have been a disturbed one.
  uint32_t tokens_within(uint64_t ns) const noexcept override;
  // The throughput of max_tokens is on a line through the smallest and the largest size seen. The
  // size is on the line between two neighbouring sizes. Returns 0, too, if there is no fixed cost,
  // or if the sizes seen are too close to tell.
  uint32_t efficient_tokens(uint32_t max_tokens) const noexcept override;

 private:
  static constexpr uint64_t kRetry = 64;
  // Times rise in steps where a GPU needs another wave of tiles. A class that spans a fifth of its
  // size would hide them from efficient_tokens().
  static constexpr uint32_t kClassesPerOctave = 8;
  // Class c holds sizes from 2^(c/8), up to 2^32 tokens: the least time, and the size of that
  // batch.
  struct Class {
    uint32_t num_tokens = 0;  // 0: no batch seen
    uint64_t ns = 0;
    uint64_t last_batch = 0;  // the number of the last batch of this class
  };
  static uint32_t class_of(uint32_t num_tokens) noexcept;

  std::array<Class, 32 * kClassesPerOctave> classes_{};
  uint64_t num_batches_ = 0;
};

}  // namespace itif::runtime
