#include "report/timing.h"

#include <algorithm>

#include "base/check.h"

namespace itif::bench {

double Samples::at(double fraction) const {
  return ns[static_cast<size_t>(fraction * static_cast<double>(ns.size() - 1) + 0.5)];
}

namespace {

double largest_spread(const std::vector<Samples>& samples) {
  double largest = 0;
  for (const Samples& one : samples) largest = std::max(largest, one.spread());
  return largest;
}

std::vector<Samples> measure_once(const std::vector<std::function<void()>>& functions,
                                  const Effort& effort, const Clock& clock) {
  constexpr double kLongNs = 0.2e9;  // one call this long warms pages, caches and thread pools
  std::vector<Samples> samples(functions.size());
  const auto time_ns = [&](const std::function<void()>& function) {
    const uint64_t before_ns = clock.now_ns();
    function();
    return static_cast<double>(clock.now_ns() - before_ns);
  };
  for (const auto& function : functions)
    for (uint32_t i = 0; i < effort.warm_ups; ++i)
      if (time_ns(function) > kLongNs) break;
  const auto is_settled = [&](const Samples& s) { return s.spread() < effort.settled; };
  const uint64_t start_ns = clock.now_ns();
  for (uint32_t round = 0; round < effort.most; ++round) {
    const double elapsed = static_cast<double>(clock.now_ns() - start_ns) * 1e-9;
    if (elapsed > effort.seconds &&
        (round >= effort.least ||
         (round >= 2 && (elapsed > effort.patience || std::ranges::all_of(samples, is_settled)))))
      break;
    for (size_t i = 0; i < functions.size(); ++i) {
      if (effort.warm_each && (round == 0 || samples[i].in_order.back() < kShortNs)) functions[i]();
      samples[i].add(time_ns(functions[i]));
    }
  }
  return samples;
}

}  // namespace

std::vector<Samples> measure(const std::vector<std::function<void()>>& functions,
                             const Effort& effort, const Clock& clock) {
  std::vector<Samples> best = measure_once(functions, effort, clock);
  for (uint32_t i = 0; i < effort.reruns && largest_spread(best) > kMaxSpread; ++i) {
    std::vector<Samples> again = measure_once(functions, effort, clock);
    if (largest_spread(again) < largest_spread(best)) best = std::move(again);
  }
  return best;
}

Samples paired_ratios(const Samples& numerator, const Samples& denominator) {
  CHECK(numerator.in_order.size() == denominator.in_order.size());
  Samples ratios;
  for (size_t i = 0; i < numerator.in_order.size(); ++i)
    ratios.add(numerator.in_order[i] / denominator.in_order[i]);
  return ratios;
}

}  // namespace itif::bench
