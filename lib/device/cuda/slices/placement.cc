#include "device/cuda/slices/placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace itif::device::cuda {
namespace {

// Gives each share its rounded part of the steps, at least one. REQUIRES: as place(), and no more
// shares than steps.
std::vector<uint32_t> counts_of(std::span<const double> percents, uint32_t num_steps) {
  const double sum = std::accumulate(percents.begin(), percents.end(), 0.0);
  const double steps_per_percent = num_steps / std::max(100.0, sum);
  std::vector<uint32_t> counts;
  std::vector<double> wanted;
  for (const double percent : percents) {
    wanted.push_back(percent * steps_per_percent);
    counts.push_back(std::max(1u, static_cast<uint32_t>(wanted.back())));
  }
  const auto most = std::max(static_cast<uint32_t>(std::lround(sum * steps_per_percent)),
                             static_cast<uint32_t>(percents.size()));
  uint32_t used = std::accumulate(counts.begin(), counts.end(), 0u);
  const auto excess = [&](size_t i) { return counts[i] - wanted[i]; };
  const auto by_excess = [&](size_t a, size_t b) { return excess(a) < excess(b); };
  std::vector<size_t> all(percents.size());
  std::iota(all.begin(), all.end(), size_t{0});
  for (; used < most; ++used) ++counts[*std::ranges::min_element(all, by_excess)];
  // Small shares were rounded up to a step: those with most above their part give it up.
  for (; used > most; --used) {
    auto larger = all;
    std::erase_if(larger, [&](size_t i) { return counts[i] == 1; });
    --counts[*std::ranges::max_element(larger, by_excess)];
  }
  return counts;
}

}  // namespace

std::vector<Run> place(std::span<const double> percents, uint32_t num_steps) {
  std::vector<Run> runs;
  if (percents.size() > num_steps) {
    for (uint32_t i = 0; i < percents.size(); ++i) runs.push_back({i % num_steps, 1});
    return runs;
  }
  uint32_t first = 0;
  for (const uint32_t count : counts_of(percents, num_steps)) {
    runs.push_back({first, count});
    first += count;
  }
  return runs;
}

}  // namespace itif::device::cuda
