// How the GEMMs of a pass share the device: ITIF's GEMM scheduler (sections 3.3.2 and 4.2.1).
//
// A tenant's rows meet its own weights, so an operator is a GEMM a range. In turn, each has all of the
// device, which waits for its slowest part after each. At once, each has a part (on the host, a thread),
// and there is one such wait for all: some per cent faster where ranges are few rows (`itif-bench
// gemm-choice`), and much faster where the parts are not idle otherwise, since a thread that is kept off its core
// delays one range and not every range.
//
// Which of them is chosen for each operator, by what both were measured to cost (plan::SharedGemm). The
// tables are of some counts of equal ranges: a pass's ranges are taken for as many of their mean size, and
// at once for as long as the most loaded part has rows once they are dealt out (device/gemm_deal.h): three
// short ranges on two threads take as long as four. What is measured are powers of two; other numbers of rows are
// copied, at once. Until there are tables both are taken to cost the same but for the deal.
//
// A GPU deals by itself, tile by tile: there an uneven deal costs nothing, and until there are tables its launches
// decide, of which there is one at once.
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
  // How much longer it may take at once by tables that were measured on an idle machine.
  static constexpr double kMostLonger = 1.05;
  // What copying all rows of a GEMM is taken to add to it: chosen by whole passes, not measured alone.
  static constexpr double kCopyCost = 0.2;

  // `parts`: that compute GEMMs side by side (DeviceInfo::num_threads); 0: the device deals by itself.
  GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows);
  ~GemmScheduler();
  GemmScheduler(const GemmScheduler&) = delete;
  GemmScheduler& operator=(const GemmScheduler&) = delete;

  // What the next passes are chosen by; null: the even deal. Any thread.
  void set_costs(std::shared_ptr<const plan::CostTables> costs);

  // Of each operator, valid until the next call. One owner thread. Allocates nothing.
  kernels::GemmModes choose(std::span<const kernels::RowRange> ranges) noexcept;

 private:
  struct Costs {
    std::shared_ptr<const plan::CostTables> tables;  // null: none to choose by
    std::vector<std::vector<double>> even_ns;        // at_once_ns, had the deal been even
    std::vector<kernels::ShapeMode> modes;           // of its shapes: the last choice
  };

  bool deals_by_itself() const { return parts_ == 0; }

  const uint32_t parts_;
  device::GemmDeal deal_;
  std::unique_ptr<Costs> costs_;             // the owner thread's
  std::atomic<Costs*> next_costs_{nullptr};  // to be taken by it
};

}  // namespace itif::runtime
