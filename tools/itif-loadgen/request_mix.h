// Draws each request's tenant, length and payload. Payloads are made in advance, so that drawing
// does not allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "options.h"

namespace itif::loadgen {

// Picks i with probability weights[i] / Σ weights, in constant time.
// Source: Vose, "A linear algorithm for generating random numbers with a given distribution", 1991.
class WeightedChoice {
 public:
  // REQUIRES: at least one weight; all above 0.
  explicit WeightedChoice(std::span<const double> weights);
  uint32_t pick(Random& random) const noexcept;

 private:
  struct Column {
    double keep = 1;  // probability of the column's own index; else its alias
    uint32_t alias = 0;
  };
  std::vector<Column> columns_;
};

// Returns a length from 1 to max_tokens(lengths).
uint32_t draw_length(const Lengths& lengths, Random& random) noexcept;
uint32_t max_tokens(const Lengths& lengths) noexcept;
// Returns the deadline of a request, µs from its due time; 0: none.
uint32_t draw_budget_us(const Deadlines& deadlines, uint32_t num_tokens, Random& random) noexcept;

// The bytes of all payloads. Immutable; shared by the threads.
class PayloadPool {
 public:
  explicit PayloadPool(const Options& options);
  // The result is valid for the life of the pool.
  std::span<const std::byte> draw(Random& random) const noexcept;
  // Returns the number of tokens of a payload; 0: not known.
  uint32_t num_tokens(std::span<const std::byte> payload) const noexcept {
    return token_bytes_ == 0 ? 0 : static_cast<uint32_t>(payload.size() / token_bytes_);
  }

 private:
  const Options& options_;
  uint32_t token_bytes_ = 0;                    // 0: texts or images
  std::vector<std::vector<std::byte>> images_;  // whole payloads
  std::vector<std::byte> tokens_;               // random ids; a payload is a slice of them
};

class RequestMix {
 public:
  RequestMix(const Options& options, const PayloadPool& pool, uint64_t seed);

  struct Draw {
    uint32_t target = 0;
    std::span<const std::byte> payload;
    uint32_t num_tokens = 0;  // 0: not known
    uint32_t budget_us = 0;   // 0: no deadline
  };
  Draw draw() noexcept;

 private:
  const PayloadPool& pool_;
  const Deadlines deadlines_;
  WeightedChoice choice_;
  Random random_;
};

}  // namespace itif::loadgen
