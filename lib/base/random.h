// A seeded random generator, so that runs can be repeated: code in lib/ takes a Random. Not for
// keys: those come from libsodium.
#pragma once

#include <cstdint>

namespace itif {

// xoshiro256** 1.0, seeded by SplitMix64. Source: Blackman and Vigna, "Scrambled linear
// pseudorandom number generators", 2021. One owner thread.
class Random {
 public:
  explicit Random(uint64_t seed) noexcept;
  uint64_t next() noexcept;
  // Uniform in [0, bound). REQUIRES: bound > 0.
  uint64_t below(uint64_t bound) noexcept;
  // Uniform in [0, 1), 53 bits.
  double uniform() noexcept;
  // Standard normal (Marsaglia's polar method).
  double normal() noexcept;
  // Exponential with mean 1: the gap between arrivals of a Poisson process of rate 1.
  double exponential() noexcept;

 private:
  uint64_t state_[4];
};

}  // namespace itif
