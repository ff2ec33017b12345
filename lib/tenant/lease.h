// Keeps a model's slot in its group alive while requests use it. A worker counts a request when it
// starts to reassemble it, until the request ends. A lease outlives every snapshot that names it.
//
// Each worker counts in a row of its own, so that workers write no common cache line per request.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace itif::telemetry {
class VersionCounts;
}

namespace itif::tenant {

// One worker's requests under a lease. One thread writes it.
class alignas(64) InFlight {
 public:
  void add() noexcept { count_.store(read() + 1, std::memory_order_relaxed); }
  // A thread that then reads the sum sees everything that the worker has done with the request.
  void remove() noexcept { count_.store(read() - 1, std::memory_order_release); }
  uint32_t read(std::memory_order order = std::memory_order_relaxed) const noexcept {
    return count_.load(order);
  }

 private:
  std::atomic<uint32_t> count_{0};
};

class Lease {
 public:
  // `num_rows`: of the threads that count requests.
  explicit Lease(size_t num_rows)
      : num_rows_(num_rows), rows_(std::make_unique<InFlight[]>(num_rows)) {}

  // REQUIRES: row < num_rows; one thread uses the row.
  InFlight& row(size_t row) noexcept { return rows_[row]; }
  // Any thread. Zero is final once no worker holds a snapshot that names the lease.
  uint32_t num_in_flight() const noexcept {
    uint32_t sum = 0;
    for (size_t i = 0; i < num_rows_; ++i) sum += rows_[i].read(std::memory_order_acquire);
    return sum;
  }

  // Counts the requests under the lease, for the model's version; null: they are not counted.
  std::shared_ptr<telemetry::VersionCounts> counts;

 private:
  size_t num_rows_;
  std::unique_ptr<InFlight[]> rows_;
};

}  // namespace itif::tenant
