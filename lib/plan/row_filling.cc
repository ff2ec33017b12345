#include "plan/row_filling.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace itif::plan {
namespace {

constexpr uint32_t kLastOfRow = UINT32_MAX;

}  // namespace

RowFilling::RowFilling(const PlanLimits& limits) : limits_(limits) {
  grouped_.reserve(limits.max_requests);
  keys_.reserve(limits.max_requests);
  rows_.reserve(limits.max_requests);
  next_.reserve(limits.max_requests);
}

void RowFilling::fill(std::span<const Item> items, std::span<const uint32_t> groups,
                      uint32_t capacity, Plan& plan) noexcept {
  assign(items, groups, capacity);
  append_rows(items, capacity, plan);
}

void RowFilling::fill_few(std::span<const Item> items, std::span<const uint32_t> groups,
                          uint32_t capacity, Plan& plan) noexcept {
  assign(items, groups, capacity);
  if (!groups.empty()) {
    const bool several =
        std::ranges::any_of(items, [&](const Item& item) { return item.slot != items[0].slot; });
    const size_t most = several ? rows_.size() + rows_.size() / kMoreRowsDivisor : rows_.size() - 1;
    assign(items, {}, capacity);
    if (rows_.size() > most) assign(items, groups, capacity);
  }
  append_rows(items, capacity, plan);
}

// Finds a row for each item.
void RowFilling::assign(std::span<const Item> items, std::span<const uint32_t> groups,
                        uint32_t capacity) noexcept {
  CHECK(items.size() <= limits_.max_requests);
  rows_.clear();
  if (items.empty()) return;
  CHECK(capacity >= 1 && capacity <= limits_.max_rows);
  next_.assign(items.size(), kLastOfRow);
  CHECK(groups.empty() || groups.size() == items.size());
  grouped_.clear();
  for (uint32_t i = 0; i < items.size(); ++i)
    grouped_.push_back(uint64_t{groups.empty() ? 0 : groups[i]} << 32 | i);
  std::sort(grouped_.begin(), grouped_.end());
  for (size_t begin = 0, end; begin < grouped_.size(); begin = end) {
    end = begin + 1;
    while (end < grouped_.size() && grouped_[end] >> 32 == grouped_[begin] >> 32) ++end;
    assign_group(items, std::span(grouped_).subspan(begin, end - begin), capacity);
  }
}

// Finds a row for each item of a group.
void RowFilling::assign_group(std::span<const Item> items, std::span<const uint64_t> group,
                              uint32_t capacity) noexcept {
  keys_.clear();
  for (const uint64_t member : group) {
    const auto i = static_cast<uint32_t>(member);
    const Item& item = items[i];
    CHECK(item.rank() < 1u << 24 && item.num_tokens > 0 && item.num_tokens <= limits_.max_rows);
    keys_.push_back(uint64_t{item.rank()} << 40 | uint64_t{0xffffff - item.num_tokens} << 16 | i);
  }
  std::sort(keys_.begin(), keys_.end());
  const size_t first_row = rows_.size();
  for (const uint64_t key : keys_) {
    const auto item = static_cast<uint32_t>(key & 0xffff);
    const uint32_t tokens = items[item].num_tokens;
    size_t row = rows_.size();
    while (row > first_row && rows_[row - 1].free < tokens) --row;
    if (row == first_row) {
      rows_.push_back(
          {.free = std::max(capacity, tokens) - tokens, .first_item = item, .last_item = item});
    } else {
      Row& found = rows_[row - 1];
      found.free -= tokens;
      next_[std::exchange(found.last_item, item)] = item;
    }
  }
}

void RowFilling::append_rows(std::span<const Item> items, uint32_t capacity,
                             Plan& plan) const noexcept {
  plan.clear();
  for (const Row& row : rows_) append(items, row, capacity, plan);
}

void RowFilling::append(std::span<const Item> items, const Row& row, uint32_t capacity,
                        Plan& plan) const noexcept {
  uint32_t tokens = 0;
  for (uint32_t i = row.first_item; i != kLastOfRow; i = next_[i]) tokens += items[i].num_tokens;
  const uint32_t num_rows = std::max(capacity, tokens);
  const uint32_t matrix = plan.segments.empty() ? 0 : plan.segments.back().score_matrix + 1;
  bool opens_pass =
      plan.passes.empty() || plan.passes.back().num_rows + num_rows > limits_.max_rows;
  if (opens_pass)
    plan.passes.push_back({.first_call = static_cast<uint32_t>(plan.calls.size()),
                           .first_mini_batch = static_cast<uint32_t>(plan.mini_batches.size()),
                           .first_segment = static_cast<uint32_t>(plan.segments.size()),
                           .matrix_rows = capacity});
  Pass& pass = plan.passes.back();
  for (uint32_t i = row.first_item; i != kLastOfRow; i = next_[i]) {
    const Item& item = items[i];
    const uint32_t padding = next_[i] == kLastOfRow ? num_rows - tokens : 0;
    const Segment segment = {.item = i,
                             .slot = item.slot,
                             .first_row = pass.num_rows,
                             .num_rows = item.num_tokens + padding,
                             .num_tokens = item.num_tokens,
                             .score_matrix = matrix,
                             .adapter = item.adapter};
    if (std::exchange(opens_pass, false) || plan.mini_batches.back().slot != item.slot) {
      const auto mini_batch = static_cast<uint32_t>(plan.mini_batches.size());
      plan.mini_batches.push_back({.slot = item.slot,
                                   .first_row = pass.num_rows,
                                   .first_segment = static_cast<uint32_t>(plan.segments.size())});
      plan.calls.push_back({.first_mini_batch = mini_batch, .num_mini_batches = 1});
      ++pass.num_mini_batches;
      ++pass.num_calls;
    }
    plan.segments.push_back(segment);
    plan.mini_batches.back().num_rows += segment.num_rows;
    ++plan.mini_batches.back().num_segments;
    plan.calls.back().num_rows += segment.num_rows;
    ++pass.num_segments;
    pass.num_rows += segment.num_rows;
  }
  plan.num_tokens += tokens;
  plan.num_rows += num_rows;
}

std::optional<PlannedRows> planned_rows(uint32_t row_tokens, uint32_t max_rows) noexcept {
  if (row_tokens == 0) return std::nullopt;
  return PlannedRows{.number = max_rows / row_tokens, .tokens = row_tokens};
}

uint32_t longest_of(std::span<const Item> items, uint32_t most) noexcept {
  uint32_t longest = 0;
  for (const Item& item : items)
    if (item.num_tokens <= most) longest = std::max(longest, item.num_tokens);
  return longest;
}

}  // namespace itif::plan
