#include "runtime/cost/cost_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

namespace itif::runtime {
namespace {

constexpr uint64_t kForgetPart = 128;  // a figure grows by 1/128 with each slower batch of its size

uint64_t in_proportion(uint64_t value, uint64_t numerator, uint64_t denominator) {
  return static_cast<uint64_t>(static_cast<double>(value) * static_cast<double>(numerator) /
                               static_cast<double>(denominator));
}

// fixed + per_token · tokens
struct Line {
  double fixed_ns;
  double per_token_ns;

  static Line through(double tokens_a, double ns_a, double tokens_b, double ns_b) noexcept {
    const double slope = std::max(0.0, (ns_b - ns_a) / (tokens_b - tokens_a));
    return {ns_a - slope * tokens_a, slope};
  }
  double batch_ns(double num_tokens) const noexcept { return fixed_ns + per_token_ns * num_tokens; }
  // Returns the size of the batch that takes `ns` per token.
  uint32_t tokens_at(double ns) const noexcept {
    return static_cast<uint32_t>(fixed_ns / (ns - per_token_ns));
  }
};

}  // namespace

uint32_t CostFloor::class_of(uint32_t num_tokens) noexcept {
  return static_cast<uint32_t>(kClassesPerOctave * std::log2(std::max(1u, num_tokens)));
}

void CostFloor::add(uint32_t num_tokens, uint64_t execute_ns) noexcept {
  Class& c = classes_[class_of(num_tokens)];
  c.last_batch = ++num_batches_;
  if (c.num_tokens != 0) c.ns += c.ns / kForgetPart;
  if (c.num_tokens != 0 && c.ns <= execute_ns) return;
  c.num_tokens = num_tokens;
  c.ns = execute_ns;
}

double CostFloor::batch_ns(uint32_t num_tokens) const noexcept {
  const Class* nearest = nullptr;
  for (const Class& c : classes_) {
    if (c.num_tokens == 0) continue;
    nearest = &c;
    if (c.num_tokens >= num_tokens) break;
  }
  if (nearest == nullptr) return 0;
  return static_cast<double>(in_proportion(nearest->ns, num_tokens, nearest->num_tokens));
}

uint32_t CostFloor::tokens_within(uint64_t ns) const noexcept {
  constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();
  const Class* larger = nullptr;     // the next class, whose batches take longer than `ns`
  const Class* forbidden = nullptr;  // the same of those that ran lately
  for (const Class& c : classes_ | std::views::reverse) {
    if (c.num_tokens == 0) continue;
    if (c.ns > ns) {
      larger = &c;
      if (num_batches_ - c.last_batch < kRetry) forbidden = &c;
      continue;
    }
    // A size between two that were measured, or beyond the largest, costs in proportion to the
    // smaller one.
    const uint64_t tokens = in_proportion(c.num_tokens, ns, std::max<uint64_t>(1, c.ns));
    return static_cast<uint32_t>(
        std::min<uint64_t>(tokens, forbidden ? forbidden->num_tokens - 1 : kAll));
  }
  return larger ? static_cast<uint32_t>(in_proportion(larger->num_tokens, ns, larger->ns)) : kAll;
}

// The times of sizes between two that were seen, and beyond the largest, are on straight lines.
uint32_t CostFloor::efficient_tokens(uint32_t max_tokens) const noexcept {
  const Class* smallest = nullptr;
  const Class* largest = nullptr;
  for (const Class& c : classes_) {
    if (c.num_tokens == 0) continue;
    if (smallest == nullptr) smallest = &c;
    largest = &c;
  }
  const auto line_of = [](const Class& a, const Class& b) {
    return Line::through(a.num_tokens, static_cast<double>(a.ns), b.num_tokens,
                         static_cast<double>(b.ns));
  };
  if (smallest == nullptr || largest->num_tokens < 2 * smallest->num_tokens) return 0;
  const Line all = line_of(*smallest, *largest);
  const double aim_ns = all.batch_ns(std::max(max_tokens, largest->num_tokens)) /
                        std::max(max_tokens, largest->num_tokens) / kEfficiency;  // per token
  const Class* smaller = nullptr;
  for (const Class& c : classes_) {
    if (c.num_tokens == 0) continue;
    if (static_cast<double>(c.ns) <= aim_ns * c.num_tokens)
      return smaller == nullptr ? 0 : line_of(*smaller, c).tokens_at(aim_ns);
    smaller = &c;
  }
  return all.tokens_at(aim_ns);
}

}  // namespace itif::runtime
