#include "plan/verify.h"

#include <fmt/format.h>

#include <set>
#include <vector>

namespace itif::plan {
namespace {

template <class... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return fail(Code::kInternal, "plan: " + fmt::format(format, std::forward<Args>(args)...));
}

#define ITIF_EXPECT(what, index, found, expected)                                    \
  do {                                                                               \
    if ((found) != (expected))                                                       \
      return wrong("{} {}: " #found " is {}, not {}", what, index, found, expected); \
  } while (0)

Status verify_items(const Plan& plan, std::span<const Item> items) {
  if (plan.segments.size() != items.size())
    return wrong("{} segments for {} items", plan.segments.size(), items.size());
  std::vector<bool> seen(items.size());
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const Segment& segment = plan.segments[i];
    if (segment.item >= items.size() || seen[segment.item])
      return wrong("segment {}: item {} does not exist or has two segments", i, segment.item);
    seen[segment.item] = true;
    ITIF_EXPECT("segment", i, segment.slot, items[segment.item].slot);
    ITIF_EXPECT("segment", i, segment.adapter, items[segment.item].adapter);
    ITIF_EXPECT("segment", i, segment.num_tokens, items[segment.item].num_tokens);
    if (segment.num_rows < segment.num_tokens)
      return wrong("segment {}: {} rows for {} tokens", i, segment.num_rows, segment.num_tokens);
  }
  return {};
}

// Totals of the elements checked so far.
struct Walk {
  uint32_t call = 0, mini_batch = 0, segment = 0;
  uint32_t row = 0;  // of the pass
  uint64_t rows = 0, tokens = 0;
};

Status verify_mini_batch(const Plan& plan, Walk& at) {
  const MiniBatch& batch = plan.mini_batches[at.mini_batch];
  ITIF_EXPECT("mini-batch", at.mini_batch, batch.first_segment, at.segment);
  ITIF_EXPECT("mini-batch", at.mini_batch, batch.first_row, at.row);
  if (batch.num_segments == 0 || batch.num_segments > plan.segments.size() - at.segment)
    return wrong("mini-batch {}: {} segments", at.mini_batch, batch.num_segments);
  for (uint32_t i = 0; i < batch.num_segments; ++i, ++at.segment) {
    const Segment& segment = plan.segments[at.segment];
    ITIF_EXPECT("segment", at.segment, segment.slot, batch.slot);
    ITIF_EXPECT("segment", at.segment, segment.first_row, at.row);
    at.row += segment.num_rows;
    at.tokens += segment.num_tokens;
  }
  ITIF_EXPECT("mini-batch", at.mini_batch, batch.num_rows, at.row - batch.first_row);
  ++at.mini_batch;
  return {};
}

Status verify_call(const Plan& plan, Walk& at) {
  const Call& call = plan.calls[at.call];
  ITIF_EXPECT("call", at.call, call.first_mini_batch, at.mini_batch);
  if (call.num_mini_batches == 0 ||
      call.num_mini_batches > plan.mini_batches.size() - at.mini_batch)
    return wrong("call {}: {} mini-batches", at.call, call.num_mini_batches);
  const uint32_t first_segment = at.segment;
  for (uint32_t i = 0; i < call.num_mini_batches; ++i) {
    const MiniBatch& batch = plan.mini_batches[at.mini_batch];
    ITIF_EXPECT("call", at.call, call.num_rows, batch.num_rows);
    ITIF_EXPECT("call", at.call, batch.num_segments,
                plan.mini_batches[call.first_mini_batch].num_segments);
    ITIF_TRY(verify_mini_batch(plan, at));
  }
  for (uint32_t s = first_segment; call.batched() && s < at.segment; ++s)
    ITIF_EXPECT("segment", s, plan.segments[s].num_rows, plan.segments[first_segment].num_rows);
  ++at.call;
  return {};
}

Status verify_tenants(const Plan& plan, size_t index, const PlanLimits& limits) {
  const Pass& pass = plan.passes[index];
  std::set<uint32_t> slots;
  for (uint32_t i = 0; i < pass.num_mini_batches; ++i)
    slots.insert(plan.mini_batches[pass.first_mini_batch + i].slot);
  uint64_t tokens = 0;
  for (uint32_t i = 0; i < pass.num_segments; ++i)
    tokens += plan.segments[pass.first_segment + i].num_tokens;
  if (limits.max_shared_tokens != 0 && slots.size() > 1 && pass.matrix_rows == 0 &&
      tokens > limits.max_shared_tokens)
    return wrong("pass {}: {} tokens of several tenants where {} are allowed", index, tokens,
                 limits.max_shared_tokens);
  if (limits.max_pass_tenants != 0 && slots.size() > limits.max_pass_tenants)
    return wrong("pass {}: {} tenants where {} are allowed", index, slots.size(),
                 limits.max_pass_tenants);
  return {};
}

// Invariant 5.
Status verify_matrices(const Plan& plan, size_t index) {
  const Pass& pass = plan.passes[index];
  const auto segments = std::span(plan.segments).subspan(pass.first_segment, pass.num_segments);
  if (pass.matrix_rows == 0) {
    for (const Segment& segment : segments)
      ITIF_EXPECT("segment of item", segment.item, segment.score_matrix, kOwnScores);
    return {};
  }
  uint32_t matrix =
      pass.first_segment == 0 ? 0 : plan.segments[pass.first_segment - 1].score_matrix + 1;
  for (size_t i = 0; i < segments.size(); ++matrix) {
    uint32_t rows = 0;
    const size_t first = i;
    do {
      if (i > first && segments[i - 1].num_rows != segments[i - 1].num_tokens)
        return wrong("segment of item {}: padding before the end of its score matrix",
                     segments[i - 1].item);
      ITIF_EXPECT("segment of item", segments[i].item, segments[i].score_matrix, matrix);
      rows += segments[i++].num_rows;
    } while (i < segments.size() && segments[i].score_matrix == matrix);
    const bool is_one_longer = i == first + 1 && segments[first].num_tokens > pass.matrix_rows &&
                               segments[first].num_rows == segments[first].num_tokens;
    if (!is_one_longer) ITIF_EXPECT("score matrix", matrix, rows, pass.matrix_rows);
  }
  return {};
}

}  // namespace

Status verify(const Plan& plan, std::span<const Item> items, const PlanLimits& limits) {
  if (items.size() > limits.max_requests)
    return wrong("{} items where {} are allowed", items.size(), limits.max_requests);
  ITIF_TRY(verify_items(plan, items));
  Walk at;
  for (size_t p = 0; p < plan.passes.size(); ++p) {
    const Pass& pass = plan.passes[p];
    ITIF_EXPECT("pass", p, pass.first_call, at.call);
    ITIF_EXPECT("pass", p, pass.first_mini_batch, at.mini_batch);
    ITIF_EXPECT("pass", p, pass.first_segment, at.segment);
    if (pass.num_calls == 0 || pass.num_calls > plan.calls.size() - at.call)
      return wrong("pass {}: {} calls", p, pass.num_calls);
    at.row = 0;
    for (uint32_t i = 0; i < pass.num_calls; ++i) ITIF_TRY(verify_call(plan, at));
    ITIF_EXPECT("pass", p, pass.num_mini_batches, at.mini_batch - pass.first_mini_batch);
    ITIF_EXPECT("pass", p, pass.num_segments, at.segment - pass.first_segment);
    ITIF_EXPECT("pass", p, pass.num_rows, at.row);
    if (at.row > limits.max_rows)
      return wrong("pass {}: {} rows where {} are allowed", p, at.row, limits.max_rows);
    ITIF_TRY(verify_tenants(plan, p, limits));
    ITIF_TRY(verify_matrices(plan, p));
    at.rows += at.row;
  }
  if (at.call != plan.calls.size() || at.mini_batch != plan.mini_batches.size() ||
      at.segment != plan.segments.size())
    return wrong("{} calls, {} mini-batches or {} segments are in no pass",
                 plan.calls.size() - at.call, plan.mini_batches.size() - at.mini_batch,
                 plan.segments.size() - at.segment);
  ITIF_EXPECT("plan", "", plan.num_rows, at.rows);
  ITIF_EXPECT("plan", "", plan.num_tokens, at.tokens);
  return {};
}

}  // namespace itif::plan
