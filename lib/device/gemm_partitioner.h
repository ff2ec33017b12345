// Partitions the ranges of concurrent GEMMs (kernels::GemmMode::kConcurrent) into tasks for the
// parts of a device that compute in parallel, such as threads. The host's GEMM runner and the
// runtime's GEMM scheduler share this code, so that the scheduler predicts what the runner does.
//
// A range is divided into tasks of at most kMaxTaskRows rows, which stay in their part's cache.
// Smaller tasks, down to kMinTaskRows rows, are used if they balance the load: three tenants on
// two threads. Even smaller ones would cost more than the balance gains, because each task reads
// all of its weights.
//
// Tasks round up to whole_rows(); surplus rows go to scratch, valid rows are copied back.
// Sequential GEMMs copy nothing: the next range overwrites the surplus rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/args.h"

namespace itif::device {

class GemmPartitioner {
 public:
  static constexpr uint32_t kMaxTaskRows = 128;
  static constexpr uint32_t kMinTaskRows = 32;
  // Smaller tasks are tried only while the unevenness exceeds this.
  static constexpr double kEven = 1.1;

  // Later calls allocate nothing for up to max_ranges ranges and max_rows rows.
  // REQUIRES: parts > 0.
  explicit GemmPartitioner(uint32_t parts, uint32_t max_ranges = 0, uint32_t max_rows = 0);

  void clear() noexcept { ranges_.clear(); }
  void add(std::span<const kernels::RowRange> ranges) noexcept;

  // Rounds up to the rows that a GEMM computes: 1, 2, 4, 8, and multiples of 16.
  static constexpr uint32_t whole_rows(uint32_t rows) {
    return rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : rows <= 8 ? 8 : (rows + 15) / 16 * 16;
  }

  struct Partition {
    uint32_t task_rows = kMaxTaskRows;
    double unevenness = 1;    // rows of the most loaded part over the mean
    uint32_t num_splits = 0;  // tasks beyond one per range
  };
  // Partitions all ranges added since clear().
  Partition partition() noexcept;

 private:
  Partition partition_into(uint32_t task_rows) noexcept;

  std::vector<uint32_t> ranges_;  // rows of each
  std::vector<uint32_t> tasks_;   // rows of each
  std::vector<uint64_t> load_;    // [parts], rows
};

}  // namespace itif::device
