// Costs of a GEMM over several tenants' ranges in each mode, from the measured tables
// (plan::SharedGemm).
//
// The tables hold some counts of ranges, so ranges count by their mean size. On a CPU, concurrent
// cost grows with the rows of the most loaded part after partitioning (device/gemm_partitioner.h):
// three short ranges on two threads take as long as four. This factor is taken out of the measured
// costs first. A range that is split reads its weights once for each task. The profile measures few
// weights, which stay in a cache, so that cost is added to the measured one.
//
// A GPU distributes work itself, tile by tile. Its costs of ranges of unequal rows, and of slots
// that are not equally far apart, are measured.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/gemm_partitioner.h"
#include "kernels/args.h"
#include "plan/cost_tables.h"

namespace itif::runtime {

class RangeCosts {
 public:
  // Cost of each task beyond one per range, in rows of the GEMM. Measured in whole passes of
  // BERT-base on two Zen 5 cores, concurrent against sequential: 12 to 18 rows for ranges of 145,
  // 160 and 197 rows, 13 for three ranges of 64, 3 to 8 for equal tasks of 64 and 128 rows.
  static constexpr double kSplitRows = 16;

  // `parts`: how many compute GEMMs concurrently (DeviceInfo::num_threads); 0: the device
  // distributes the work itself. `tables` may be null or without shapes.
  RangeCosts(uint32_t parts, uint32_t max_ranges, uint32_t max_rows,
             std::shared_ptr<const plan::CostTables> tables);

  // The ranges that the figures below are about. Allocates nothing. REQUIRES: not empty.
  void set(std::span<const kernels::RowRange> ranges) noexcept;

  // Time of concurrent GEMMs over their time with an even partition and one task per range.
  double longer() const noexcept { return longer_; }
  // [shapes]; empty: no tables.
  std::span<const plan::SharedGemm> gemms() const noexcept;
  // One GEMM of gemms()[shape]. Infinite: the mode was not measured.
  double cost_ns(size_t shape, kernels::GemmMode mode) const noexcept;
  // The line through the costs of the shortest and of the longest range, each a GEMM of its own:
  // call_ns + rows * row_ns. A level line if all are equally long.
  struct RangeLine {
    double call_ns = 0, row_ns = 0;
  };
  RangeLine range_line(size_t shape) const noexcept;
  // One GEMM of the same ranges padded to a graph bucket: a call by pointers, where those are
  // measured.
  double bucket_ns(size_t shape) const noexcept;

 private:
  bool partitions_itself() const noexcept { return parts_ == 0; }
  double interpolate(const std::vector<double>& costs_ns) const noexcept;

  const uint32_t parts_;
  const std::shared_ptr<const plan::CostTables> tables_;
  device::GemmPartitioner partitioner_;
  // concurrent_ns, partitioned evenly.
  std::vector<std::vector<double>> even_ns_;
  double count_ = 0, mean_rows_ = 0;
  uint32_t min_rows_ = 0, max_rows_ = 0;  // of a range
  double unevenness_ = 1, longer_ = 1;
  bool has_equal_rows_ = true, has_equal_steps_ = true;  // of the ranges and of their slots
};

}  // namespace itif::runtime
