// Histograms of a worker's tenants by stage: the buckets of TenantLatencyTable, and exact sums.
// 8,128 bytes per tenant. The pages of tenants that were never answered take no memory: 32 MiB of
// addresses are reserved, and the first answer of a tenant costs page faults. One writer, any
// number of readers; single counts are atomic.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

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

  // Without `records`, find() must not be called, and the table takes no memory.
  explicit TenantStageTable(bool records) {
    if (!records) return;
    rows_.reset(static_cast<Row*>(std::calloc(tenant::kMaxTenants + 1, sizeof(Row))));
    if (rows_ == nullptr) throw std::bad_alloc();
    const size_t past_line = reinterpret_cast<uintptr_t>(rows_.get()) % kLineBytes;
    first_row_ = reinterpret_cast<Row*>(reinterpret_cast<std::byte*>(rows_.get()) +
                                        (past_line == 0 ? 0 : kLineBytes - past_line));
  }

  // Records a request, in two steps: find() begins to load the memory that record() writes.
  struct Cells;
  void find(uint32_t tenant_index, const Times& times, Cells& cells) const noexcept;
  // `ns_of(stage)`: the times that find() was called with.
  template <class NsOf>
  static void record(const Cells& cells, NsOf&& ns_of) noexcept;

  // Adds the tenant's figures to `into`. Any thread.
  void merge_into(uint32_t tenant_index, StageFigures& into) const noexcept {
    if (rows_ == nullptr) return;
    merge_into(tenant_index, into.sums);
    const Row& row = first_row_[tenant_index];
    for (size_t s = 0; s < into.counts.size(); ++s)
      for (size_t i = 0; i < into.counts[s].size(); ++i)
        into.counts[s][i] += read(row.counts[s][i]);
  }
  void merge_into(uint32_t tenant_index, StageSums& into) const noexcept {
    if (rows_ == nullptr) return;
    const Row& row = first_row_[tenant_index];
    into.num_requests += read(row.num_requests);
    // The total is the last stage: the sum of all others.
    for (size_t s = 0; s < row.ns.size(); ++s) {
      const uint64_t ns = read(row.ns[s]);
      into.ns[s] += ns;
      into.ns.back() += ns;
    }
  }

 private:
  static constexpr size_t kLineBytes = 64;
  struct Row {
    std::array<uint64_t, telemetry::kNumRequestStages - 1> ns;  // by stage; without kTotal
    uint64_t num_requests;
    std::array<std::array<uint64_t, TenantLatencyTable::kBuckets>, telemetry::kNumRequestStages>
        counts;          // by stage and bucket
    uint64_t unused[6];  // a row takes whole cache lines
  };
  static_assert(sizeof(Row) % kLineBytes == 0);
  struct Free {
    void operator()(Row* rows) const noexcept { std::free(rows); }
  };
  // The only writer: an ordinary addition that readers may observe.
  static void add(uint64_t& value, uint64_t n) noexcept {
    std::atomic_ref ref(value);
    ref.store(ref.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  static uint64_t read(const uint64_t& value) noexcept {
    return std::atomic_ref(const_cast<uint64_t&>(value)).load(std::memory_order_relaxed);
  }

  std::unique_ptr<Row, Free> rows_;  // as allocated: with room for the alignment
  Row* first_row_ = nullptr;         // aligned to cache lines
};

// The row of a request's tenant, and the count of each stage's bucket.
struct TenantStageTable::Cells {
  Row* row;
  std::array<uint64_t*, telemetry::kNumRequestStages> counts;  // by telemetry::Stage
};

// Calls f with each stage's number, unrolled, so that the data path's offsets are constants.
template <class F>
inline void for_each_request_stage(F&& f) noexcept {
  [&]<size_t... kStages>(std::index_sequence<kStages...>) {
    (f(kStages), ...);
  }
  (std::make_index_sequence<telemetry::kNumRequestStages>());
}

inline void TenantStageTable::find(uint32_t tenant_index, const Times& times,
                                   Cells& cells) const noexcept {
  Row& row = first_row_[tenant_index];
  cells.row = &row;
  __builtin_prefetch(&row.ns.front(), 1);
  __builtin_prefetch(&row.num_requests, 1);
  for_each_request_stage([&](size_t stage) {
    uint64_t& count = row.counts[stage][TenantLatencyTable::bucket_of(times[stage])];
    cells.counts[stage] = &count;
    __builtin_prefetch(&count, 1);
  });
}

template <class NsOf>
inline void TenantStageTable::record(const Cells& cells, NsOf&& ns_of) noexcept {
  for_each_request_stage([&](size_t stage) {
    if (stage < cells.row->ns.size()) add(cells.row->ns[stage], ns_of(stage));
    add(*cells.counts[stage], 1);
  });
  add(cells.row->num_requests, 1);
}

}  // namespace itif::pipeline
