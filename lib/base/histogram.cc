#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace itif {
namespace {

constexpr int kBits = Histogram::kSubBucketBits;
constexpr uint64_t kSub = uint64_t{1} << kBits;

// Values below 2^kBits have a bucket each; above, each power of two has 2^kBits buckets.
size_t bucket_of(uint64_t value) noexcept {
  const int exponent = std::bit_width(value | kSub) - 1 - kBits;
  return (static_cast<size_t>(exponent) << kBits) + (value >> exponent);
}

uint64_t upper_edge(size_t bucket) noexcept {
  if (bucket < kSub) return bucket;
  const int exponent = static_cast<int>(bucket >> kBits) - 1;
  const uint64_t low = (kSub + (bucket & (kSub - 1))) << exponent;
  return low + ((uint64_t{1} << exponent) - 1);
}

}  // namespace

Histogram::Histogram() : buckets_(static_cast<size_t>(64 - kBits + 1) << kBits) {}

void Histogram::record(uint64_t value, uint64_t times) noexcept {
  buckets_[bucket_of(value)] += times;
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::record(std::span<const uint64_t> values) noexcept {
  uint64_t* const buckets = buckets_.data();
  uint64_t least = min_, most = max_;
  double sum = 0;
  for (size_t i = 0; i < values.size();) {
    const uint64_t value = values[i];
    size_t end = i + 1;
    while (end < values.size() && values[end] == value) ++end;
    buckets[bucket_of(value)] += end - i;
    sum += static_cast<double>(value) * static_cast<double>(end - i);
    least = std::min(least, value);
    most = std::max(most, value);
    i = end;
  }
  count_ += values.size();
  sum_ += sum;
  min_ = least;
  max_ = most;
}

void Histogram::merge(const Histogram& other) noexcept {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void Histogram::clear() noexcept {
  std::fill(buckets_.begin(), buckets_.end(), 0);
  count_ = 0;
  sum_ = 0;
  min_ = UINT64_MAX;
  max_ = 0;
}

uint64_t Histogram::percentile(double percent) const noexcept {
  if (count_ == 0) return 0;
  const double exact = percent / 100 * static_cast<double>(count_);
  const uint64_t rank = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(exact - 1e-9)));
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::clamp(upper_edge(i), min_, max_);
  }
  return max_;
}

}  // namespace itif
