#include "plan/packed.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "plan/planner_kind.h"

namespace itif::plan {
namespace {

class Packed final : public Planner {
 public:
  explicit Packed(const PlannerOptions& options) : limits_(options.limits) {}

  // Each tenant is one mini-batch and one GEMM. Batch policies keep batches within the workspace,
  // so one pass is enough. If the tokens do not fit, the remaining requests go to further passes.
  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    CHECK(items.size() <= limits_.max_requests);
    plan.clear();
    plan_packed(items, plan.segments);
    for (uint32_t i = 0; i < plan.segments.size(); ++i) {
      Segment& segment = plan.segments[i];
      CHECK(segment.num_rows <= limits_.max_rows);
      const bool opens_pass =
          plan.passes.empty() || plan.passes.back().num_rows + segment.num_rows > limits_.max_rows;
      const auto num_mini_batches = static_cast<uint32_t>(plan.mini_batches.size());
      if (opens_pass)
        plan.passes.push_back({.first_call = num_mini_batches,
                               .first_mini_batch = num_mini_batches,
                               .first_segment = i});
      Pass& pass = plan.passes.back();
      segment.first_row = pass.num_rows;
      if (opens_pass || plan.mini_batches.back().slot != segment.slot) {
        plan.mini_batches.push_back(
            {.slot = segment.slot, .first_row = pass.num_rows, .first_segment = i});
        plan.calls.push_back({.first_mini_batch = num_mini_batches, .num_mini_batches = 1});
        ++pass.num_mini_batches;
        ++pass.num_calls;
      }
      plan.mini_batches.back().num_rows += segment.num_rows;
      ++plan.mini_batches.back().num_segments;
      plan.calls.back().num_rows += segment.num_rows;
      ++pass.num_segments;
      pass.num_rows += segment.num_rows;
      plan.num_rows += segment.num_rows;
    }
    plan.num_tokens = plan.num_rows;
  }

 private:
  const PlanLimits limits_;
};

}  // namespace

void plan_packed(std::span<const Item> items, std::vector<Segment>& segments) {
  segments.clear();
  for (uint32_t i = 0; i < items.size(); ++i)
    segments.push_back({.item = i,
                        .slot = items[i].slot,
                        .num_rows = items[i].num_tokens,
                        .num_tokens = items[i].num_tokens,
                        .adapter = items[i].adapter});
  // Ties within a slot go by item: std::sort with the index in the key needs no buffer, unlike
  // stable_sort.
  const auto key = [&](const Segment& segment) {
    return std::tuple(items[segment.item].rank(), segment.slot, segment.item);
  };
  std::ranges::sort(segments, {}, key);
  uint32_t row = 0;
  for (Segment& segment : segments) {
    segment.first_row = row;
    row += segment.num_rows;
  }
}

PlannerKind packed_planner() {
  return {.make = make_planner_of<Packed>, .max_requests = 1u << 16};
}

}  // namespace itif::plan
