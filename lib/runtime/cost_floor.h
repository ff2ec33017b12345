// What batches take while nothing disturbs the machine, by their size: the least that was seen.
//
// A mean (cost_estimate.h) says when a batch will end; it grows with whatever else the machine does, and
// a bound derived from it would give way to the very flood that it is to hold. Forgets slowly: a figure
// that is not met again fades within some hundred batches of its size.
// Owned by the executor's thread.
#pragma once

#include <array>
#include <cstdint>

namespace itif::runtime {

class CostFloor {
 public:
  // A batch that ran. REQUIRES: num_tokens > 0.
  void add(uint32_t num_tokens, uint64_t execute_ns) noexcept;
  // Of one batch; 0 as long as nothing is known. Sizes that were not seen are taken in proportion to
  // the next larger that was, else to the largest.
  uint64_t batch_ns(uint32_t num_tokens) const noexcept;
  // The largest batch that takes no longer; as many as there are as long as nothing is known.
  uint32_t tokens_within(uint64_t ns) const noexcept;

 private:
  static constexpr uint32_t kClassesPerOctave = 4;
  // The sizes from 2^(c/4) on, of batches of up to 2^32 tokens; the least time and the size it was of.
  struct Class {
    uint32_t num_tokens = 0;  // 0: none was seen
    uint64_t ns = 0;
  };
  static uint32_t class_of(uint32_t num_tokens) noexcept;

  std::array<Class, 32 * kClassesPerOctave> classes_{};
};

}  // namespace itif::runtime
