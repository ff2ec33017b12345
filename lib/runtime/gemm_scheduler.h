// How the GEMMs of a pass share the device: ITIF's GEMM scheduler (sections 3.3.2 and 4.2.1).
//
// A tenant's rows meet its own weights, so an operator is a GEMM a range. In turn, each has all of the
// device, which waits for its slowest part after each. At once, each has a part (on the host, a thread),
// and there is one such wait for all: as fast where the parts are idle otherwise (`itif-bench
// gemm-choice`), and much faster where they are not, since a thread that is kept off its core delays one
// range and not every range.
//
// Which of them is chosen for each operator, by what both were measured to cost (plan::SharedGemm). The
// tables are of equal ranges: a pass's are taken for as many of their mean size, and at once for as much
// longer as their deal over the parts is less even. Until there are tables the deal alone decides, for
// all operators alike: at once pays where ranges can be dealt out evenly; one large range cannot.
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
  struct Costs {
    std::shared_ptr<const plan::CostTables> tables;  // null: none to choose by
    std::vector<kernels::ShapeMode> modes;           // of its shapes: the last choice
  };
  // Rows of the most loaded part once all are dealt out.
  uint64_t deal(std::span<const kernels::RowRange> ranges) noexcept;

  std::vector<uint64_t> load_;               // [parts], rows
  std::vector<uint32_t> tasks_;              // rows
  std::vector<kernels::RowRange> equal_;     // as many ranges of the mean size
  std::unique_ptr<Costs> costs_;             // the owner thread's
  std::atomic<Costs*> next_costs_{nullptr};  // to be taken by it
};

}  // namespace itif::runtime
