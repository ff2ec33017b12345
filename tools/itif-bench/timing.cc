#include "timing.h"

#include <algorithm>

#include "base/clock.h"

namespace itif::bench {

double Samples::at(double fraction) const {
  return ns[static_cast<size_t>(fraction * static_cast<double>(ns.size() - 1) + 0.5)];
}

std::vector<Samples> measure(const std::vector<std::function<void()>>& functions,
                             const Effort& effort) {
  const SystemClock clock;
  std::vector<Samples> samples(functions.size());
  for (const auto& function : functions) {  // pages, caches, thread pools
    function();
    function();
  }
  const uint64_t start_ns = clock.now_ns();
  for (uint32_t round = 0; round < effort.most; ++round) {
    const double elapsed = static_cast<double>(clock.now_ns() - start_ns) * 1e-9;
    if (round >= effort.least && elapsed > effort.seconds) break;
    for (size_t i = 0; i < functions.size(); ++i) {
      const uint64_t before_ns = clock.now_ns();
      functions[i]();
      samples[i].ns.push_back(static_cast<double>(clock.now_ns() - before_ns));
    }
  }
  for (Samples& s : samples) std::sort(s.ns.begin(), s.ns.end());
  return samples;
}

}  // namespace itif::bench
