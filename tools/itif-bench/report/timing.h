// Repeated measurement: warms up, measures until a time budget is spent, and keeps every sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/clock.h"

namespace itif::bench {

struct Samples {
  std::vector<double> ns;        // sorted
  std::vector<double> in_order;  // the same, as they were measured
  void add(double one_ns) {
    ns.insert(std::upper_bound(ns.begin(), ns.end(), one_ns), one_ns);
    in_order.push_back(one_ns);
  }
  // With an even number of samples: the mean of the middle two.
  double median() const { return (ns[(ns.size() - 1) / 2] + ns[ns.size() / 2]) / 2; }
  double min() const { return ns.front(); }
  double spread() const { return (at(0.9) - at(0.1)) / median(); }
  double at(double fraction) const;
};

struct Effort {
  double seconds = 3.0;  // approximate time spent on one row
  uint32_t least = 9;    // fewest samples, however long they take
  uint32_t most = 2000;  // most samples
  // Calls of each function before measuring. One is enough if it takes long.
  uint32_t warm_ups = 2;
  // Two samples are enough after `seconds` if all spreads are below `settled`, and always after
  // `patience` seconds.
  double settled = 0;
  double patience = std::numeric_limits<double>::infinity();
  // If a spread exceeds kMaxSpread, measures all functions again, this often at most. The run whose
  // largest spread is smallest counts.
  uint32_t reruns = 0;
  // Before each sample of a function that takes less than kShortNs, calls it once unmeasured.
  // Otherwise the other functions would leave it cold caches and sleeping threads.
  bool warm_each = false;
};
inline constexpr double kShortNs = 20e6;
// A larger spread is marked in tables.
inline constexpr double kMaxSpread = 0.15;
// For runs that may take seconds and were warmed up by their check.
inline constexpr Effort kLongRuns{
    .seconds = 1, .least = 5, .warm_ups = 0, .settled = 0.02, .patience = 8, .reruns = 1};

// For comparisons of whole batches laid out in different ways.
inline constexpr Effort kLayoutRuns{.seconds = 10,
                                    .least = 5,
                                    .settled = kLongRuns.settled,
                                    .patience = 30,
                                    .reruns = 1,
                                    .warm_each = true};

inline const SystemClock kSystemClock;

// Samples of each function. Calls alternate (a, b, a, b …), so that other load on the machine
// affects all functions alike.
std::vector<Samples> measure(const std::vector<std::function<void()>>& functions,
                             const Effort& effort, const Clock& clock = kSystemClock);

// Quotients of samples that were measured next to each other: `numerator` over `denominator`.
// Load on the machine that lasts longer than two calls does not change them. REQUIRES: both come
// from one call of measure().
Samples paired_ratios(const Samples& numerator, const Samples& denominator);

}  // namespace itif::bench
