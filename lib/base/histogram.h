// A histogram like HdrHistogram: log-linear buckets with a bounded relative error. It takes 30 KiB,
// and recording a value is an increment. Debian packages no C++ HdrHistogram.
//
// One writer; readers merge() snapshots made by the owner. Values have any unit; itif records ns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace itif {

class Histogram {
 public:
  // Relative error of a reported value is below 1/64.
  static constexpr int kSubBucketBits = 6;

  Histogram();
  void record(uint64_t value) noexcept { record(value, 1); }
  void record(uint64_t value, uint64_t times) noexcept;
  // Records many values in less time than one by one, above all if equal ones are adjacent.
  void record(std::span<const uint64_t> values) noexcept;
  void merge(const Histogram& other) noexcept;
  void clear() noexcept;

  uint64_t count() const noexcept { return count_; }
  uint64_t min() const noexcept { return count_ ? min_ : 0; }
  uint64_t max() const noexcept { return max_; }
  double mean() const noexcept { return count_ ? sum_ / static_cast<double>(count_) : 0; }
  // Returns the smallest recorded value that at least `percent` of all values do not exceed, as the
  // upper edge of its bucket clamped to [min, max]; 0 when empty. REQUIRES: 0 ≤ percent ≤ 100.
  uint64_t percentile(double percent) const noexcept;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace itif
