// Repeated measurement: warm up, then time until a budget is spent, and keep every sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/clock.h"

namespace itif::bench {

struct Samples {
  std::vector<double> ns;  // sorted
  void add(double one_ns) { ns.insert(std::upper_bound(ns.begin(), ns.end(), one_ns), one_ns); }
  // Of an even number, the mean of the two in the middle.
  double median() const { return (ns[(ns.size() - 1) / 2] + ns[ns.size() / 2]) / 2; }
  double min() const { return ns.front(); }
  double spread() const { return (at(0.9) - at(0.1)) / median(); }
  double at(double fraction) const;
};

struct Effort {
  double seconds = 3.0;  // spent on one row, about
  uint32_t least = 9;    // samples, whatever they take
  uint32_t most = 2000;
  uint32_t warm_ups =
      2;  // calls of each ahead that do not count; of a long one the first is enough
  // Two samples are enough, after `seconds`, where all spreads are below `settled`, and after `patience`.
  double settled = 0;
  double patience = std::numeric_limits<double>::infinity();
};
// Of what may take seconds, and has run already for its check.
inline constexpr Effort kLongRuns{
    .seconds = 1, .least = 3, .warm_ups = 0, .settled = 0.02, .patience = 8};

inline const SystemClock kSystemClock;

// Samples of each function, called in turn a, b, a, b …: what else the machine does meanwhile then
// hits all of them alike.
std::vector<Samples> measure(const std::vector<std::function<void()>>& functions,
                             const Effort& effort, const Clock& clock = kSystemClock);

}  // namespace itif::bench
