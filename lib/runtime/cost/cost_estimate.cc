#include "runtime/cost/cost_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace itif::runtime {
namespace {

constexpr double kDecay = 0.95;
constexpr double kDistrust = 0.9;
// Trust in the slope grows with the variance of batch sizes: batches of 3 to 5 tokens say nothing
// about one of 500, and their noise must not be multiplied by 100. A variance of kMinVariance
// (tokens²) plus kMinRelativeVariance of the squared mean halves the slope.
constexpr double kMinVariance = 16 * 16;
constexpr double kMinRelativeVariance = 0.01;

}  // namespace

void CostEstimate::add(uint32_t num_tokens, uint64_t execute_ns) noexcept {
  if (!warm_) {
    warm_ = true;
    return;
  }
  const auto tokens = static_cast<double>(num_tokens);
  const auto ns = static_cast<double>(execute_ns);
  count_ = kDecay * count_ + 1;
  tokens_ = kDecay * tokens_ + tokens;
  tokens_squared_ = kDecay * tokens_squared_ + tokens * tokens;
  ns_ = kDecay * ns_ + ns;
  tokens_ns_ = kDecay * tokens_ns_ + tokens * ns;
}

void CostEstimate::distrust() noexcept {
  ns_ *= kDistrust;
  tokens_ns_ *= kDistrust;
}

CostEstimate::Line CostEstimate::line() const noexcept {
  if (count_ == 0) return {};
  const double mean_tokens = tokens_ / count_;
  const double mean_ns = ns_ / count_;
  const double variance = std::max(0.0, tokens_squared_ / count_ - mean_tokens * mean_tokens);
  const double covariance = tokens_ns_ / count_ - mean_tokens * mean_ns;
  const double doubt = kMinVariance + kMinRelativeVariance * mean_tokens * mean_tokens;
  double slope = std::max(0.0, covariance / (variance + doubt));
  if (mean_tokens > 0) slope = std::min(slope, mean_ns / mean_tokens);  // fixed ≥ 0
  return {mean_ns - slope * mean_tokens, slope};
}

double CostEstimate::batch_ns(uint32_t num_tokens) const noexcept {
  const Line l = line();
  return l.fixed_ns + l.per_token_ns * num_tokens;
}

uint32_t CostEstimate::tokens_within(uint64_t ns) const noexcept {
  constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();
  const Line l = line();
  const double left_ns = static_cast<double>(ns) - l.fixed_ns;
  if (left_ns < 0) return 0;
  if (l.per_token_ns * kAll <= left_ns) return kAll;
  return static_cast<uint32_t>(left_ns / l.per_token_ns);
}

double CostEstimate::backlog_ns(double num_tokens, double num_batches,
                                uint32_t max_tokens) const noexcept {
  const Line l = line();
  const double batches = std::ceil(std::max(num_batches, num_tokens / std::max(1u, max_tokens)));
  return l.fixed_ns * batches + l.per_token_ns * num_tokens;
}

}  // namespace itif::runtime
