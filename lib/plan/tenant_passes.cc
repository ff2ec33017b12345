#include "plan/tenant_passes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace itif::plan {
namespace {

uint32_t or_any(uint32_t limit) noexcept {
  return limit == 0 ? UINT32_MAX : limit;
}

}  // namespace

TenantPasses::TenantPasses(std::unique_ptr<Planner> planner, const PlanLimits& limits)
    : planner_(std::move(planner)),
      max_pass_tenants_(or_any(limits.max_pass_tenants)),
      max_shared_tokens_(or_any(limits.max_shared_tokens)) {
  CHECK(limits.max_pass_tenants > 0 || limits.max_shared_tokens > 0);
  ranked_.reserve(limits.max_requests);
  items_.reserve(limits.max_requests);
  part_.reserve(limits.max_requests);
}

void TenantPasses::plan_rows(std::span<const Item> items, const RowChoice& choice,
                             Plan& plan) noexcept {
  rank(items);
  plan.clear();
  for (size_t first = 0; first < ranked_.size();) {
    const size_t end = part_end(items, first);
    items_.clear();
    for (size_t i = first; i < end; ++i) items_.push_back(items[ranked_[i].item]);
    planner_->plan_rows(items_, {.rows = {}, .slots = {}, .slot_tokens = choice.slot_tokens},
                        part_);
    append(part_, std::span(ranked_).subspan(first, end - first), plan);
    first = end;
  }
}

size_t TenantPasses::part_end(std::span<const Item> items, size_t first) const noexcept {
  uint64_t tokens = 0;
  size_t end = first;
  for (uint32_t num_tenants = 0; end < ranked_.size() && num_tenants < max_pass_tenants_;
       ++num_tenants) {
    size_t next = end;
    for (; next < ranked_.size() && ranked_[next].rank == ranked_[end].rank; ++next)
      tokens += items[ranked_[next].item].num_tokens;
    if (num_tenants > 0 && tokens > max_shared_tokens_) break;
    end = next;
  }
  return end;
}

// Sorts the items by tenant, tenants by their first items. O(n log n).
void TenantPasses::rank(std::span<const Item> items) noexcept {
  const auto by_slot = [&](const Ranked& a, const Ranked& b) {
    const uint32_t slot_a = items[a.item].slot, slot_b = items[b.item].slot;
    return slot_a != slot_b ? slot_a < slot_b : a.item < b.item;
  };
  ranked_.clear();
  for (uint32_t item = 0; item < items.size(); ++item) ranked_.push_back({.item = item});
  std::ranges::sort(ranked_, by_slot);
  uint32_t first_item = 0;
  for (size_t i = 0; i < ranked_.size(); ++i) {
    if (i == 0 || items[ranked_[i].item].slot != items[ranked_[i - 1].item].slot)
      first_item = ranked_[i].item;
    ranked_[i].rank = first_item;
  }
  std::ranges::sort(ranked_, [](const Ranked& a, const Ranked& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.item < b.item;
  });
  // Makes the ranks consecutive.
  uint32_t num_tenants = 0, before = 0;
  for (Ranked& ranked : ranked_) {
    if (num_tenants == 0 || ranked.rank != before) ++num_tenants;
    before = std::exchange(ranked.rank, num_tenants - 1);
  }
}

void TenantPasses::append(const Plan& part, std::span<const Ranked> items,
                          Plan& plan) const noexcept {
  const auto first_segment = static_cast<uint32_t>(plan.segments.size());
  const auto first_mini_batch = static_cast<uint32_t>(plan.mini_batches.size());
  const auto first_call = static_cast<uint32_t>(plan.calls.size());
  const uint32_t first_matrix = plan.segments.empty() ? 0 : plan.segments.back().score_matrix + 1;
  for (Segment segment : part.segments) {
    segment.item = items[segment.item].item;
    if (segment.score_matrix != kOwnScores) segment.score_matrix += first_matrix;
    plan.segments.push_back(segment);
  }
  for (MiniBatch batch : part.mini_batches) {
    batch.first_segment += first_segment;
    plan.mini_batches.push_back(batch);
  }
  for (Call call : part.calls) {
    call.first_mini_batch += first_mini_batch;
    plan.calls.push_back(call);
  }
  for (Pass pass : part.passes) {
    pass.first_segment += first_segment;
    pass.first_mini_batch += first_mini_batch;
    pass.first_call += first_call;
    plan.passes.push_back(pass);
  }
  plan.num_tokens += part.num_tokens;
  plan.num_rows += part.num_rows;
  plan.cost_ns += part.cost_ns;
  plan.has_fixed_calls = part.has_fixed_calls;
}

}  // namespace itif::plan
