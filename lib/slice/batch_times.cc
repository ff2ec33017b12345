#include "slice/batch_times.h"

#include <algorithm>
#include <cmath>

namespace itif::slice {
namespace {

constexpr double kLeastBatches = 10;  // sum of weights

}  // namespace

void BatchTimes::add(const BatchSums& sums, double kept) noexcept {
  const auto add = [kept](double& sum, double term) { sum = sum * kept + term; };
  add(sums_.batches, sums.batches);
  add(sums_.tokens, sums.tokens);
  add(sums_.tokens_squared, sums.tokens_squared);
  add(sums_.ns, sums.ns);
  add(sums_.ns_squared, sums.ns_squared);
  add(sums_.tokens_ns, sums.tokens_ns);
}

std::optional<BatchTimes::Line> BatchTimes::line() const noexcept {
  const double n = sums_.batches;
  if (n < kLeastBatches || sums_.tokens <= 0) return {};
  const double mean_tokens = sums_.tokens / n, mean_ns = sums_.ns / n;
  // Sums of squared deviations from the means, and of their products.
  const double tokens_deviation = sums_.tokens_squared - n * mean_tokens * mean_tokens;
  const double ns_deviation = sums_.ns_squared - n * mean_ns * mean_ns;
  const double common = sums_.tokens_ns - n * mean_tokens * mean_ns;
  double slope = mean_ns / mean_tokens;
  // A smaller deviation is rounding: all batches had one size.
  if (tokens_deviation > 1e-6 * sums_.tokens_squared) {
    const double fitted = common / tokens_deviation;
    const double rest = std::max(0.0, ns_deviation - fitted * common) / (n - 2);
    slope = std::clamp(fitted + 2 * std::sqrt(rest / tokens_deviation), 0.0, slope);
  }
  return Line{.fixed_ns = mean_ns - slope * mean_tokens, .per_token_ns = slope};
}

double BatchTimes::tokens_per_batch() const noexcept {
  return sums_.tokens > 0 ? sums_.tokens_squared / sums_.tokens : 0;
}

}  // namespace itif::slice
