// Repeated measurement: warm up, then time until a budget is spent, and keep every sample.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace itif::bench {

struct Samples {
  std::vector<double> ns;  // sorted
  double median() const { return at(0.5); }
  double min() const { return ns.front(); }
  double spread() const { return (at(0.9) - at(0.1)) / median(); }
  double at(double fraction) const;
};

struct Effort {
  double seconds = 3.0;  // spent on one row, about
  uint32_t least = 9;    // samples, whatever they take
  uint32_t most = 2000;
};

// Samples of each function, called in turn a, b, a, b …: what else the machine does meanwhile then
// hits all of them alike.
std::vector<Samples> measure(const std::vector<std::function<void()>>& functions,
                             const Effort& effort);

}  // namespace itif::bench
