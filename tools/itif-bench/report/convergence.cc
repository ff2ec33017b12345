#include "report/convergence.h"

#include <algorithm>
#include <cmath>

namespace itif::bench {
namespace {

constexpr uint32_t kBatchesInARow = 3;

}  // namespace

double convergence_ms(const std::vector<BatchSeen>& batches, uint64_t from_ns, uint64_t until_ns) {
  const uint64_t last_half_ns = from_ns + (until_ns - from_ns) / 2;
  double sum = 0, count = 0;
  for (const BatchSeen& batch : batches)
    if (batch.begun_ns >= last_half_ns && batch.done_ns <= until_ns) {
      sum += batch.num_requests;
      ++count;
    }
  const double at_last = count > 0 ? sum / count : 0;
  uint32_t num_in_a_row = 0;
  uint64_t first_done_ns = until_ns;
  for (const BatchSeen& batch : batches) {
    if (count == 0 || batch.begun_ns < from_ns || batch.done_ns > until_ns) continue;
    const bool is_there = std::abs(batch.num_requests - at_last) <= std::max(1.0, at_last / 10);
    num_in_a_row = is_there ? num_in_a_row + 1 : 0;
    if (num_in_a_row == 1) first_done_ns = batch.done_ns;
    if (num_in_a_row == kBatchesInARow) return static_cast<double>(first_done_ns - from_ns) / 1e6;
  }
  return static_cast<double>(until_ns - from_ns) / 1e6;
}

}  // namespace itif::bench
