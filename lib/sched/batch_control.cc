#include "sched/batch_control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace itif::sched {
namespace {

// A batch that takes less than this part of its aim counts as slack. Source: GSLICE's threshold of
// 5 %.
constexpr double kSlackPart = 0.95;

}  // namespace

Result<BatchControlKind> parse_batch_control(std::string_view name) {
  const auto* found = std::ranges::find(kBatchControlNames, name);
  if (found == kBatchControlNames.end())
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not one of: {}", name, fmt::join(kBatchControlNames, ", ")));
  return static_cast<BatchControlKind>(found - kBatchControlNames.begin());
}

std::unique_ptr<BatchControl> make_batch_control(BatchControlKind kind, uint32_t max_tokens) {
  switch (kind) {
    case BatchControlKind::kAimd: return make_aimd(max_tokens);
    case BatchControlKind::kSlab: return make_slab(max_tokens);
    case BatchControlKind::kFixed: return make_fixed(max_tokens);
  }
  CHECK(false);
}

uint32_t BatchControl::tokens(uint64_t slo_ns) noexcept {
  if (slo_ns == 0) return max_tokens_;
  if (is_first_ && adapts()) tokens_ = 1;
  return tokens_;
}

void BatchControl::ran(const BatchRun& run) noexcept {
  if (run.slo_ns == 0) {
    num_misses_ = num_slacks_ = 0;
    return;
  }
  const auto target_ns = slice::kBatchAim * static_cast<double>(run.slo_ns);
  const auto execute_ns = static_cast<double>(run.execute_ns);
  const bool is_limited = is_full(run) && tokens_ < max_tokens_;
  const bool is_first = std::exchange(is_first_, false) && adapts();
  const double wanted_tokens =
      is_first ? run.num_tokens * target_ns / std::max(1.0, execute_ns) : adapted(run, target_ns);
  const double adapted_tokens = std::clamp(wanted_tokens, 1.0, static_cast<double>(max_tokens_));
  const auto next_tokens = static_cast<uint32_t>(adapted_tokens);
  const bool is_least = run.num_requests <= 1 || next_tokens == tokens_;
  num_misses_ = execute_ns > target_ns && is_least ? num_misses_ + 1 : 0;
  num_slacks_ = execute_ns < kSlackPart * target_ns && !is_limited ? num_slacks_ + 1 : 0;
  tokens_ = next_tokens;
}

slice::Ask BatchControl::ask() const noexcept {
  if (num_misses_ >= kNumInRow) return slice::Ask::kMore;
  if (num_slacks_ >= kNumInRow) return slice::Ask::kLess;
  return slice::Ask::kNothing;
}

}  // namespace itif::sched
