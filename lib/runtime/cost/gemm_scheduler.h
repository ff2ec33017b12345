// Chooses how the GEMMs of a pass share the device: ITIF's GEMM scheduler (sections 3.3.2 and
// 4.2.1).
//
// Each tenant's rows have their own weights, so an operator is one GEMM per range. Sequentially,
// each GEMM has the whole device, which then waits for its slowest part. Concurrently, each range
// has one part (on the host, a thread), with one such wait for all. This is some per cent faster
// for ranges of few rows (`itif-bench gemm-choice`). It is much faster if the parts have other
// work, since a thread that is kept off its core delays one range instead of every range.
//
// The choice is made per operator, from the measured costs of both (plan::SharedGemm). The tables
// hold some counts of equal ranges, so a pass counts as equal ranges of its mean size.
// Concurrent cost grows with the rows of the most loaded part after partitioning
// (device/gemm_deal.h): three short ranges on two threads take as long as four. Numbers of rows that
// match no kernel also cost a copy. Both factors are taken out of the measured costs first. Without
// tables, both modes count as equal except for the partition.
//
// A GPU distributes work itself, tile by tile, so an uneven partition costs nothing there. Without
// tables the number of launches decides: concurrent GEMMs need only one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/gemm_deal.h"
#include "kernels/args.h"
#include "plan/cost_tables.h"

namespace itif::runtime {

class GemmScheduler {
 public:
  // Concurrent is chosen up to this ratio to the sequential cost, since the tables were measured on
  // an idle machine.
  static constexpr double kMaxLonger = 1.05;
  // Assumed cost of copying all rows of a GEMM, relative to the GEMM. Tuned on whole passes, not
  // measured alone.
  static constexpr double kCopyCost = 0.2;

  // `parts`: how many compute GEMMs concurrently (DeviceInfo::num_threads); 0: the device
  // distributes the work itself.
  GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows);
  ~GemmScheduler();
  GemmScheduler(const GemmScheduler&) = delete;
  GemmScheduler& operator=(const GemmScheduler&) = delete;

  // Sets the tables for the next passes; null: evenness of the partition decides. Any thread.
  void set_costs(std::shared_ptr<const plan::CostTables> costs);

  // Returns the mode of each operator, valid until the next call. One owner thread. Allocates
  // nothing.
  kernels::GemmSchedule choose(std::span<const kernels::RowRange> ranges) noexcept;
  // The same for a layout that may be padded to a graph bucket. A bucket's GEMM is one concurrent
  // call: the captured graph must not depend on tenants.
  kernels::GemmSchedule choose(std::span<const kernels::RowRange> ranges,
                               bool has_bucket) noexcept {
    return has_bucket ? kernels::GemmMode::kConcurrent : choose(ranges);
  }

 private:
  struct Costs {
    std::shared_ptr<const plan::CostTables> tables;  // null: none
    std::vector<std::vector<double>> even_ns;        // at_once_ns, evenly and without copies
    std::vector<kernels::ShapeMode> modes;           // the last choice for each shape
  };

  bool deals_by_itself() const { return parts_ == 0; }
  // How much longer concurrent GEMMs take than if their rows were dealt evenly and without copies.
  static double longer(const device::GemmDeal::Dealt& dealt) {
    return dealt.unevenness * (1 + kCopyCost * dealt.copied);
  }

  const uint32_t parts_;
  device::GemmDeal deal_;
  std::unique_ptr<Costs> costs_;             // owner thread only
  std::atomic<Costs*> next_costs_{nullptr};  // taken by the owner thread
};

}  // namespace itif::runtime
