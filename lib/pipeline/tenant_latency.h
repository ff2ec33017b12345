// Latency histograms of a worker, one per possible tenant and therefore coarse: four buckets per
// octave from 1 µs to 16 s, 800 bytes per tenant. One writer, any number of readers; single counts
// are atomic.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tenant/snapshot.h"

namespace itif::pipeline {

class TenantLatencyTable {
 public:
  static constexpr size_t kBuckets = 100;
  using Counts = std::array<uint64_t, kBuckets>;

  TenantLatencyTable() : rows_(std::make_unique<Row[]>(tenant::kMaxTenants)) {}

  void record(uint32_t tenant_index, uint64_t ns) noexcept {
    std::atomic<uint64_t>& count = rows_[tenant_index][bucket_of(ns)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // Adds the tenant's counts to `into`. Any thread.
  void merge_into(uint32_t tenant_index, Counts& into) const noexcept {
    for (size_t i = 0; i < kBuckets; ++i)
      into[i] += rows_[tenant_index][i].load(std::memory_order_relaxed);
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
  static size_t bucket_of(uint64_t ns) noexcept {
    const uint64_t us = ns >> 10;
    if (us < 4) return us;
    const int exponent = std::bit_width(us) - 3;
    const size_t bucket = static_cast<size_t>(exponent) * 4 + (us >> exponent);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  static uint64_t upper_edge_ns(size_t bucket) noexcept {
    if (bucket < 4) return (bucket + 1) << 10;
    const size_t exponent = bucket / 4 - 1;
    return ((bucket % 4 + 5) << exponent) << 10;
  }

 private:
  using Row = std::array<std::atomic<uint64_t>, kBuckets>;
  std::unique_ptr<Row[]> rows_;
};

}  // namespace itif::pipeline
