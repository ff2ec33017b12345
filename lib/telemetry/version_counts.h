// Counts of the requests that one version of a tenant's model has ended. Each worker writes its own
// row; any thread reads the sum. Single counts are atomic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "telemetry/counters.h"
#include "telemetry/latency_buckets.h"

namespace itif::telemetry {

class VersionCounts {
 public:
  struct Sum {
    uint64_t answered = 0;
    uint64_t errors = 0;               // ended with a status, but not refused
    uint64_t refused = 0;              // the appliance took no request then, whatever its version
    LatencyBuckets::Counts latency{};  // of the answered ones
  };

  explicit VersionCounts(size_t num_workers)
      : num_workers_(num_workers), rows_(std::make_unique<Row[]>(num_workers)) {}

  // Counts a request that ended with a result, `ns` after its first piece. REQUIRES: called by
  // worker `worker`, which is below num_workers.
  void add_answer(size_t worker, uint64_t ns) noexcept {
    rows_[worker].latency[LatencyBuckets::bucket_of(ns)].add();
  }
  // Count a request that ended with a status. REQUIRES: as for add_answer().
  void add_error(size_t worker) noexcept { rows_[worker].errors.add(); }
  void add_refused(size_t worker) noexcept { rows_[worker].refused.add(); }

  // Any thread.
  Sum sum() const noexcept {
    Sum sum;
    for (size_t worker = 0; worker < num_workers_; ++worker) {
      sum.errors += rows_[worker].errors.read();
      sum.refused += rows_[worker].refused.read();
      for (size_t i = 0; i < sum.latency.size(); ++i)
        sum.latency[i] += rows_[worker].latency[i].read();
    }
    for (const uint64_t count : sum.latency) sum.answered += count;
    return sum;
  }

 private:
  struct alignas(kCacheLineBytes) Row {
    std::array<Counter, LatencyBuckets::kBuckets> latency;
    Counter errors;
    Counter refused;
  };

  size_t num_workers_;
  std::unique_ptr<Row[]> rows_;
};

}  // namespace itif::telemetry
