// Latency histograms of a worker, one per possible tenant and therefore coarse: 800 bytes
// per tenant. One writer, any number of readers; single counts are atomic.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/huge_vector.h"
#include "telemetry/latency_buckets.h"
#include "tenant/snapshot.h"

namespace itif::pipeline {

class TenantLatencyTable : public telemetry::LatencyBuckets {
 public:
  TenantLatencyTable() : rows_(tenant::kMaxTenants) {}

  void record(uint32_t tenant_index, uint64_t ns) noexcept {
    std::atomic<uint64_t>& count = rows_[tenant_index][bucket_of(ns)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // Adds the tenant's counts to `into`. Any thread.
  void merge_into(uint32_t tenant_index, Counts& into) const noexcept {
    for (size_t i = 0; i < kBuckets; ++i)
      into[i] += rows_[tenant_index][i].load(std::memory_order_relaxed);
  }

 private:
  using Row = std::array<std::atomic<uint64_t>, kBuckets>;
  HugeVector<Row> rows_;
};

}  // namespace itif::pipeline
