// How the ranges of GEMMs that run at once (kernels::GemmMode::kAtOnce) are dealt out to the parts of a
// device that compute side by side, such as threads. Who runs them and who chooses whether to (the runtime's
// GEMM scheduler) count alike.
//
// A range is divided into tasks of at most kMostTaskRows rows, which keep their part's cache, and of fewer, no
// less than kLeastTaskRows, where that evens out the deal: three tenants on two threads. Fewer rows than that
// would cost more than they even out: each task reads all of its weights.
//
// A task is computed as whole_rows() of its rows, of which what is too much would be written over its neighbours':
// it goes elsewhere, and the rest is copied. In turn nothing is, since the next range comes later.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/args.h"

namespace itif::device {

class GemmDeal {
 public:
  static constexpr uint32_t kMostTaskRows = 128;
  static constexpr uint32_t kLeastTaskRows = 32;
  // Tasks of half the size are not tried where those at hand can be dealt out as evenly as this.
  static constexpr double kEven = 1.1;

  // Allocates nothing later if no more ranges and rows are added. REQUIRES: parts > 0.
  explicit GemmDeal(uint32_t parts, uint32_t max_ranges = 0, uint32_t max_rows = 0);

  void clear() noexcept { ranges_.clear(); }
  void add(std::span<const kernels::RowRange> ranges) noexcept;

  // Rows that are computed where there are so many: 1, 2, 4, 8, and multiples of 16.
  static constexpr uint32_t whole_rows(uint32_t rows) {
    return rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : rows <= 8 ? 8 : (rows + 15) / 16 * 16;
  }

  struct Dealt {
    uint32_t task_rows = kMostTaskRows;
    double unevenness = 1;  // rows of the most loaded part over the mean
    double copied = 0;      // share of rows that are
  };
  // Of all that was added since clear().
  Dealt deal() noexcept;

 private:
  Dealt dealt(uint32_t task_rows) noexcept;

  std::vector<uint32_t> ranges_;  // rows of each
  std::vector<uint32_t> tasks_;   // likewise
  std::vector<uint64_t> load_;    // [parts], rows
};

}  // namespace itif::device
