// The interface by which a policy asks how long batches take. An executor learns these times from
// batches that ran (runtime/cost); a simulator or a test takes them from a table.
#pragma once

#include <cstdint>
#include <limits>

namespace itif::sched {

class BatchCost {
 public:
  virtual ~BatchCost() = default;
  // Returns the time of one batch, ns; 0: unknown.
  virtual double batch_ns(uint32_t num_tokens) const noexcept = 0;
  // Returns the largest batch that takes at most `ns`, in tokens; UINT32_MAX: unknown.
  virtual uint32_t tokens_within(uint64_t ns) const noexcept = 0;
  // Returns the smallest batch, in tokens, with at least kEfficiency times the throughput of one of
  // max_tokens; 0: unknown, or every size has. Smaller ones spend much of their time on fixed cost.
  virtual uint32_t efficient_tokens(uint32_t /*max_tokens*/) const noexcept { return 0; }
  static constexpr double kEfficiency = 0.95;
};

class UnknownCost final : public BatchCost {
 public:
  double batch_ns(uint32_t) const noexcept override { return 0; }
  uint32_t tokens_within(uint64_t) const noexcept override {
    return std::numeric_limits<uint32_t>::max();
  }
};
inline const UnknownCost kUnknownCost;

// Both costs outlive this object.
struct BatchCosts {
  const BatchCost& expected = kUnknownCost;     // under the present load
  const BatchCost& undisturbed = kUnknownCost;  // without other load on the machine
};

}  // namespace itif::sched
