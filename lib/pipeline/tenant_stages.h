// Histograms of a worker's tenants by stage: the buckets of TenantLatencyTable, and exact sums.
// 8,088 bytes per tenant. The pages of tenants that were never answered take no memory: 32 MiB of
// addresses are reserved, and the first answer of a tenant costs page faults. One writer, any
// number of readers; single counts are atomic.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "pipeline/tenant_latency.h"
#include "telemetry/stages.h"

namespace itif::pipeline {

// Exact sums of one tenant's answered requests.
struct StageSums {
  std::array<uint64_t, telemetry::kNumRequestStages> ns{};  // by telemetry::Stage
  uint64_t num_requests = 0;

  uint64_t of(telemetry::Stage stage) const { return ns[static_cast<size_t>(stage)]; }
  StageSums& operator-=(const StageSums& other) noexcept {
    num_requests -= other.num_requests;
    for (size_t s = 0; s < ns.size(); ++s) ns[s] -= other.ns[s];
    return *this;
  }
};

// The figures of one tenant.
struct StageFigures {
  StageSums sums;
  std::array<TenantLatencyTable::Counts, telemetry::kNumRequestStages> counts{};  // by stage

  StageFigures& operator-=(const StageFigures& other) noexcept {
    sums -= other.sums;
    for (size_t s = 0; s < counts.size(); ++s)
      for (size_t i = 0; i < TenantLatencyTable::kBuckets; ++i) counts[s][i] -= other.counts[s][i];
    return *this;
  }
};

class TenantStageTable {
 public:
  using Times = std::array<uint64_t, telemetry::kNumRequestStages>;  // in ns, by telemetry::Stage

  // Without `records`, record() must not be called, and the table takes no memory.
  explicit TenantStageTable(bool records) {
    if (!records) return;
    rows_.reset(static_cast<StageFigures*>(std::calloc(tenant::kMaxTenants, sizeof(StageFigures))));
    if (rows_ == nullptr) throw std::bad_alloc();
  }

  void record(uint32_t tenant_index, const Times& times) noexcept {
    StageFigures& row = rows_.get()[tenant_index];
    for (size_t s = 0; s < times.size(); ++s) {
      add(row.counts[s][TenantLatencyTable::bucket_of(times[s])], 1);
      add(row.sums.ns[s], times[s]);
    }
    add(row.sums.num_requests, 1);
  }
  // Adds the tenant's figures to `into`. Any thread.
  void merge_into(uint32_t tenant_index, StageFigures& into) const noexcept {
    if (rows_ == nullptr) return;
    merge_into(tenant_index, into.sums);
    const StageFigures& row = rows_.get()[tenant_index];
    for (size_t s = 0; s < into.counts.size(); ++s)
      for (size_t i = 0; i < TenantLatencyTable::kBuckets; ++i)
        into.counts[s][i] += read(row.counts[s][i]);
  }
  void merge_into(uint32_t tenant_index, StageSums& into) const noexcept {
    if (rows_ == nullptr) return;
    const StageSums& sums = rows_.get()[tenant_index].sums;
    into.num_requests += read(sums.num_requests);
    for (size_t s = 0; s < into.ns.size(); ++s) into.ns[s] += read(sums.ns[s]);
  }
  // Loads the memory that record() will write.
  void prefetch(uint32_t tenant_index, const Times& times) const noexcept {
    const StageFigures& row = rows_.get()[tenant_index];
    for (size_t s = 0; s < times.size(); ++s)
      __builtin_prefetch(&row.counts[s][TenantLatencyTable::bucket_of(times[s])], 1);
    __builtin_prefetch(&row.sums.ns.front(), 1);
    __builtin_prefetch(&row.sums.num_requests, 1);
  }

 private:
  struct Free {
    void operator()(StageFigures* rows) const noexcept { std::free(rows); }
  };
  // The only writer: an ordinary addition that readers may observe.
  static void add(uint64_t& value, uint64_t n) noexcept {
    std::atomic_ref ref(value);
    ref.store(ref.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  static uint64_t read(const uint64_t& value) noexcept {
    return std::atomic_ref(const_cast<uint64_t&>(value)).load(std::memory_order_relaxed);
  }

  std::unique_ptr<StageFigures, Free> rows_;
};

}  // namespace itif::pipeline
