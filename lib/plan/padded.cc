#include "plan/padded.h"

#include <algorithm>

#include "base/check.h"

namespace itif::plan {

void pad_to_longest(const RequestOrder& order, uint32_t max_rows,
                    std::vector<PaddedBatch>& batches) noexcept {
  batches.clear();
  const uint32_t length = order.longest();
  for (uint32_t first = 0; first < order.size();) {
    const uint32_t end = order.tenant_end(first);
    while (first < end) {
      const uint32_t size = std::min(end - first, max_rows / length);
      batches.push_back({first, size, length});
      first += size;
    }
  }
}

void append_call(const RequestOrder& order, std::span<const PaddedBatch> batches, uint32_t max_rows,
                 const CostModel* costs, Plan& plan) noexcept {
  const uint32_t size = batches.front().size;
  uint32_t length = 0;
  for (const PaddedBatch& batch : batches) length = std::max(length, batch.length);
  const uint32_t batch_rows = size * length;
  const uint32_t num_batches = static_cast<uint32_t>(batches.size());
  const uint32_t rows = num_batches * batch_rows;
  DCHECK(rows <= max_rows);

  if (plan.passes.empty() || plan.passes.back().num_rows + rows > max_rows) {
    Pass& pass = plan.passes.emplace_back();
    pass.first_call = static_cast<uint32_t>(plan.calls.size());
    pass.first_mini_batch = static_cast<uint32_t>(plan.mini_batches.size());
    pass.first_segment = static_cast<uint32_t>(plan.segments.size());
  }
  Pass& pass = plan.passes.back();
  const double cost_ns = costs == nullptr ? 0 : costs->call_ns(length, num_batches, size);
  plan.calls.push_back({static_cast<uint32_t>(plan.mini_batches.size()), num_batches, batch_rows,
                        static_cast<float>(cost_ns)});
  plan.cost_ns += cost_ns;
  plan.has_fixed_calls = true;
  uint32_t row = pass.num_rows;
  for (const PaddedBatch& batch : batches) {
    DCHECK(batch.size == size);
    plan.mini_batches.push_back({order.slot(batch.first), row, batch_rows,
                                 static_cast<uint32_t>(plan.segments.size()), size});
    for (uint32_t rank = batch.first; rank < batch.first + size; ++rank) {
      const uint32_t num_tokens = order.length(rank);
      plan.segments.push_back({.item = order.item(rank),
                               .slot = order.slot(rank),
                               .first_row = row,
                               .num_rows = length,
                               .num_tokens = num_tokens,
                               .adapter = order.adapter(rank)});
      plan.num_tokens += num_tokens;
      row += length;
    }
  }
  ++pass.num_calls;
  pass.num_mini_batches += num_batches;
  pass.num_segments += num_batches * size;
  pass.num_rows += rows;
  plan.num_rows += rows;
}

void append_separate_calls(const RequestOrder& order, std::span<const PaddedBatch> batches,
                           uint32_t max_rows, const CostModel* costs, Plan& plan) noexcept {
  for (const PaddedBatch& batch : batches) append_call(order, {&batch, 1}, max_rows, costs, plan);
}

}  // namespace itif::plan
