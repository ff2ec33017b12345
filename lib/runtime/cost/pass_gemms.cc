#include "runtime/cost/pass_gemms.h"

#include <algorithm>

#include "base/check.h"

namespace itif::runtime {
namespace {

using kernels::GemmCall;
using kernels::RowRange;

// Bounds the memory of groups with many requests in a batch: 768 KiB.
constexpr size_t kMaxRanges = 1 << 16;

bool are_equal(std::span<const RowRange> ranges, const uint32_t* numbers, uint32_t number) {
  return std::ranges::all_of(ranges,
                             [&](const RowRange& range) { return numbers[range.slot] == number; });
}
bool have_one_slot(std::span<const RowRange> ranges) {
  return std::ranges::all_of(ranges,
                             [&](const RowRange& range) { return range.slot == ranges[0].slot; });
}
RowRange joined(std::span<const RowRange> ranges) {
  RowRange all = ranges[0];
  all.num_rows = ranges.back().first_row + ranges.back().num_rows - all.first_row;
  return all;
}

}  // namespace

PassGemms::PassGemms(uint32_t parts, size_t num_kinds, const Limits& limits)
    : joins_(limits.joins), scheduler_(parts, limits.max_ranges, limits.max_rows) {
  modes_.reserve((kMaxJoined + 1) * plan::kMaxShapes);
  if (!joins_) return;
  const size_t max_ranges =
      std::max<size_t>(limits.max_ranges, std::min(kMaxJoined * limits.max_ranges, kMaxRanges));
  all_.reserve(kMaxJoined);
  of_kind_.resize(num_kinds);
  ranges_.reserve(max_ranges);
  calls_.reserve(max_ranges);
}

PassGemms::Choice PassGemms::choose(std::span<const RowRange> ranges,
                                    std::span<const GemmCall> calls, bool has_bucket,
                                    const model::WeightView& weights) noexcept {
  all_.clear();
  ranges_.clear();
  calls_.clear();
  modes_.clear();
  Choice choice{
      .schedule = calls.empty() ? scheduled(ranges, has_bucket) : kernels::GemmSchedule(calls),
      .joined = {}};
  if (!joins_ || has_bucket || ranges.size() < 2) return choice;
  DCHECK(weights.numbers.size() <= of_kind_.size());
  for (size_t kind = 0; kind < weights.numbers.size(); ++kind) {
    const uint32_t* numbers = weights.numbers[kind];
    of_kind_[kind] = numbers == nullptr ? uint8_t{0} : join(ranges, calls, numbers);
  }
  if (!all_.empty())
    choice.joined = {.all = all_, .of_kind = std::span(of_kind_).first(weights.numbers.size())};
  return choice;
}

// Returns 1 + the index into all_ of the ranges with these numbers; 0: none are joined.
uint8_t PassGemms::join(std::span<const RowRange> ranges, std::span<const GemmCall> calls,
                        const uint32_t* numbers) noexcept {
  const size_t first_range = ranges_.size(), first_call = calls_.size();
  if (ranges_.capacity() - first_range < ranges.size()) return 0;
  if (calls.empty())
    join_ranges(ranges, numbers);
  else
    join_calls(ranges, calls, numbers);
  const auto new_ranges = std::span<const RowRange>(ranges_).subspan(first_range);
  const auto new_calls = std::span<const GemmCall>(calls_).subspan(first_call);
  const auto forget = [&] {
    ranges_.resize(first_range);
    calls_.resize(first_call);
  };
  if (new_ranges.size() == ranges.size()) {
    forget();
    return 0;
  }
  // Equal ranges have equal calls.
  const auto same = std::ranges::find_if(all_, [&](const backbone::GemmRanges& other) {
    return std::ranges::equal(other.ranges, new_ranges, {}, &RowRange::first_row,
                              &RowRange::first_row);
  });
  if (same != all_.end()) {
    forget();
    return static_cast<uint8_t>(same - all_.begin() + 1);
  }
  if (all_.size() == kMaxJoined) {
    forget();
    return 0;
  }
  all_.push_back({new_ranges,
                  calls.empty() ? scheduled(new_ranges, false) : kernels::GemmSchedule(new_calls)});
  return static_cast<uint8_t>(all_.size());
}

void PassGemms::join_ranges(std::span<const RowRange> ranges, const uint32_t* numbers) noexcept {
  for (size_t first = 0, end; first < ranges.size(); first = end) {
    for (end = first + 1; end < ranges.size();) {
      if (numbers[ranges[end].slot] != numbers[ranges[first].slot]) break;
      ++end;
    }
    ranges_.push_back(joined(ranges.subspan(first, end - first)));
  }
}

void PassGemms::join_calls(std::span<const RowRange> ranges, std::span<const GemmCall> calls,
                           const uint32_t* numbers) noexcept {
  size_t first = 0;  // range of the call
  for (size_t call = 0, end_call; call < calls.size(); call = end_call) {
    const uint32_t number = numbers[ranges[first].slot];
    size_t end = first;
    GemmCall sum{.num_ranges = 1};
    bool has_costs = true;
    for (end_call = call; end_call < calls.size(); ++end_call) {
      const GemmCall& next = calls[end_call];
      if (!are_equal(ranges.subspan(end, next.num_ranges), numbers, number)) break;
      end += next.num_ranges;
      sum.cost_ns += next.cost_ns;
      has_costs &= next.cost_ns > 0;
    }
    if (end_call == call) {  // a BatchedGEMM of several weights
      end += calls[call].num_ranges;
      ++end_call;
    } else if (!have_one_slot(ranges.subspan(first, end - first))) {
      if (!has_costs) sum.cost_ns = 0;
      ranges_.push_back(joined(ranges.subspan(first, end - first)));
      calls_.push_back(sum);
      first = end;
      continue;
    }
    ranges_.insert(ranges_.end(), ranges.begin() + static_cast<std::ptrdiff_t>(first),
                   ranges.begin() + static_cast<std::ptrdiff_t>(end));
    calls_.insert(calls_.end(), calls.begin() + static_cast<std::ptrdiff_t>(call),
                  calls.begin() + static_cast<std::ptrdiff_t>(end_call));
    first = end;
  }
}

// Keeps the scheduler's choice: its next one overwrites it.
kernels::GemmSchedule PassGemms::scheduled(std::span<const RowRange> ranges,
                                           bool has_bucket) noexcept {
  const kernels::GemmSchedule chosen = scheduler_.choose(ranges, has_bucket);
  const size_t first = modes_.size();
  CHECK(chosen.shapes().size() <= plan::kMaxShapes);
  modes_.insert(modes_.end(), chosen.shapes().begin(), chosen.shapes().end());
  return {std::span<const kernels::ShapeMode>(modes_).subspan(first), chosen.others()};
}

}  // namespace itif::runtime
