// How the GEMMs of a pass share the device: ITIF's GEMM scheduler (sections 3.3.2 and 4.2.1).
//
// A tenant's rows meet its own weights, so an operator is a GEMM a range. In turn, each has all of the
// device, which waits for its slowest part after each. At once, each has a part (on the host, a thread),
// and there is one such wait for all: as fast where the parts are idle otherwise (`itif-bench
// gemm-choice`), and much faster where they are not, since a thread that is kept off its core delays one
// range and not every range. It pays when ranges can be dealt out evenly; one large range cannot.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/args.h"

namespace itif::runtime {

class GemmScheduler {
 public:
  // A range beyond this is computed in tasks of so many rows.
  static constexpr uint32_t kTaskRows = 128;
  // How uneven a deal may be: the most loaded part's rows over the mean.
  static constexpr double kMostUneven = 1.1;

  // `parts`: that compute GEMMs side by side; at least 1.
  GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows);

  // One owner thread.
  kernels::GemmMode choose(std::span<const kernels::RowRange> ranges) noexcept;

 private:
  std::vector<uint64_t> load_;   // [parts], rows
  std::vector<uint32_t> tasks_;  // rows
};

}  // namespace itif::runtime
