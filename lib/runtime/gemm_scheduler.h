// How the GEMMs of a pass share the device: ITIF's GEMM scheduler (sections 3.3.2 and 4.2.1).
//
// A tenant's rows meet its own weights, so an operator is a GEMM a range. In turn, each has all of the
// device, which waits for its slowest part after each. At once, each has a part (on the host, a thread),
// and there is one such wait for all: as fast where the parts are idle otherwise (`itif-bench
// gemm-choice`), and much faster where they are not, since a thread that is kept off its core delays one
// range and not every range.
//
// Which of them is chosen for each operator, by what both were measured to cost (plan::SharedGemm). The
// tables are of some counts of equal ranges: a pass's ranges are taken for as many of their mean size, and
// at once for as long as the most loaded part has rows, in what these took when dealt out: three equal
// ranges on two threads take as long as four. Until there are tables the deal alone decides, for all
// operators alike: at once pays where ranges can be dealt out evenly; one large range cannot.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/args.h"
#include "plan/cost_tables.h"

namespace itif::runtime {

class GemmScheduler {
 public:
  // A range beyond this is computed in tasks of so many rows.
  static constexpr uint32_t kTaskRows = 128;
  // How uneven a deal may be without tables: the most loaded part's rows over the mean.
  static constexpr double kMostUneven = 1.1;
  // How much longer it may take at once by tables that were measured on an idle machine.
  static constexpr double kMostLonger = 1.05;

  // `parts`: that compute GEMMs side by side; at least 1.
  GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows);
  ~GemmScheduler();
  GemmScheduler(const GemmScheduler&) = delete;
  GemmScheduler& operator=(const GemmScheduler&) = delete;

  // What the next passes are chosen by; null: the even deal. Any thread.
  void set_costs(std::shared_ptr<const plan::CostTables> costs);

  // Of each operator, valid until the next call. One owner thread. Allocates nothing.
  kernels::GemmModes choose(std::span<const kernels::RowRange> ranges) noexcept;

 private:
  // Deals ranges out in tasks. Allocates nothing once it is made.
  class Deal {
   public:
    Deal(uint32_t parts, uint32_t max_ranges, uint32_t max_rows);
    // Rows of the most loaded part over the mean.
    double unevenness(std::span<const kernels::RowRange> ranges) noexcept;

   private:
    std::vector<uint64_t> load_;   // [parts], rows
    std::vector<uint32_t> tasks_;  // rows
  };
  struct Costs {
    std::shared_ptr<const plan::CostTables> tables;  // null: none to choose by
    std::vector<std::vector<double>> even_ns;        // at_once_ns, had the deal been even
    std::vector<kernels::ShapeMode> modes;           // of its shapes: the last choice
  };

  const uint32_t parts_;
  Deal deal_;
  std::unique_ptr<Costs> costs_;             // the owner thread's
  std::atomic<Costs*> next_costs_{nullptr};  // to be taken by it
};

}  // namespace itif::runtime
