// Buckets of coarse latency histograms: four per octave from 1 µs to 16 s.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace itif::telemetry {

struct LatencyBuckets {
  static constexpr size_t kBuckets = 100;
  using Counts = std::array<uint64_t, kBuckets>;

  static size_t bucket_of(uint64_t ns) noexcept {
    const uint64_t us = ns >> 10;
    const int exponent = std::bit_width(us | 4) - 3;  // below 4 µs as at 4: a bucket each
    const size_t bucket = static_cast<size_t>(exponent) * 4 + (us >> exponent);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  static uint64_t upper_edge_ns(size_t bucket) noexcept {
    if (bucket < 4) return (bucket + 1) << 10;
    const size_t exponent = bucket / 4 - 1;
    return ((bucket % 4 + 5) << exponent) << 10;
  }
  // Returns the upper edge in ns of the bucket that holds the percentile; 0 if there are no counts.
  static uint64_t percentile(const Counts& counts, double percent) noexcept {
    uint64_t total = 0;
    for (uint64_t count : counts) total += count;
    if (total == 0) return 0;
    const double rank = percent / 100 * static_cast<double>(total);
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts[i];
      if (seen > 0 && static_cast<double>(seen) >= rank) return upper_edge_ns(i);
    }
    return upper_edge_ns(kBuckets - 1);
  }
};

}  // namespace itif::telemetry
