// Chooses how the GEMMs of a pass share the device: ITIF's GEMM scheduler (sections 3.3.2 and
// 4.2.1).
//
// Each tenant's rows have their own weights, so an operator is one GEMM per range. Sequentially,
// each GEMM has the whole device, which then waits for its slowest part. Concurrent GEMMs each use
// one part (on the host, a thread), and the device waits once for all of them. This is some per
// cent faster for ranges of few rows (`itif-bench gemm-choice`). It is much faster if the parts
// have other work, since a thread that is kept off its core delays one range instead of every
// range.
//
// The choice is made per operator, from the measured costs of each mode (range_costs.h). Without
// cost tables, only the balance of the partition decides. A GPU distributes work itself;
// without tables the number of launches decides there: concurrent GEMMs need only one. A GPU has
// two modes more: a call for each range on several streams, and one call by pointers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/args.h"
#include "plan/cost_tables.h"
#include "runtime/cost/range_costs.h"

namespace itif::runtime {

class GemmScheduler {
 public:
  // Concurrent GEMMs are chosen if they take at most this many times as long as the best other
  // mode: the tables come from an idle machine, and on a busy one concurrent GEMMs lose less.
  static constexpr double kMaxLonger = 1.05;
  // `parts`: how many compute GEMMs concurrently (DeviceInfo::num_threads); 0: the device
  // distributes the work itself.
  GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows);
  ~GemmScheduler();
  GemmScheduler(const GemmScheduler&) = delete;
  GemmScheduler& operator=(const GemmScheduler&) = delete;

  // Sets the tables for the next passes; null: evenness of the partition decides. Any thread.
  void set_costs(std::shared_ptr<const plan::CostTables> costs);

  // Returns the mode for the ranges of `costs`. `shape`: one of its gemms().
  static kernels::GemmMode cheapest(const RangeCosts& costs, size_t shape) noexcept;
  // Returns the mode of each operator, valid until the next call. One owner thread. Allocates
  // nothing.
  kernels::GemmSchedule choose(std::span<const kernels::RowRange> ranges) noexcept;
  // The same for a layout that may be padded to a graph bucket. A bucket's GEMM is one call by
  // pointers: the captured graph must not depend on tenants.
  kernels::GemmSchedule choose(std::span<const kernels::RowRange> ranges,
                               bool has_bucket) noexcept {
    return has_bucket ? kernels::GemmMode::kPointers : choose(ranges);
  }

 private:
  struct Costs {
    RangeCosts ranges;
    std::vector<kernels::ShapeMode> modes;  // the last choice for each shape
  };
  std::unique_ptr<Costs> make_costs(std::shared_ptr<const plan::CostTables> tables) const;

  const uint32_t parts_, max_ranges_, max_rows_;
  std::unique_ptr<Costs> costs_;             // owner thread only
  std::atomic<Costs*> next_costs_{nullptr};  // taken by the owner thread
};

}  // namespace itif::runtime
