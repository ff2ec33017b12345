#include "slice/max_min.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace itif::slice {
namespace {

// A satisfied group's share may differ from its demand by rounding.
constexpr double kRounding = 1e-9;

// Water filling: raises a level until the shares sum up to `percent`. A group's share is level
// times `part`, but no less than `least` and no more than its demand. Groups for which part(i) is 0
// keep their shares.
template <class Part>
void fill(std::span<const Demand> demands, double percent, double least, Part part,
          std::span<double> shares) noexcept {
  const auto share = [&](size_t i, double level) {
    return std::clamp(level * part(i), least, std::max(least, demands[i].percent));
  };
  const auto sum = [&](double level) {
    double total = 0;
    for (size_t i = 0; i < demands.size(); ++i)
      if (part(i) > 0) total += share(i, level);
    return total;
  };
  double low = 0, high = 0;  // at `high` each group has its demand
  for (size_t i = 0; i < demands.size(); ++i)
    if (part(i) > 0) high = std::max(high, demands[i].percent / part(i));
  if (sum(high) > percent) {
    // The sum rises with the level. Ends once the two levels are neighbours.
    for (double middle = high / 2; middle > low && middle < high; middle = (low + high) / 2)
      (sum(middle) > percent ? high : low) = middle;
    high = low;
  }
  for (size_t i = 0; i < demands.size(); ++i)
    if (part(i) > 0) shares[i] = share(i, high);
}

}  // namespace

void divide(std::span<const Demand> demands, const Division& division,
            std::span<double> shares) noexcept {
  CHECK(shares.size() == demands.size());
  if (demands.empty()) return;
  const double least =
      std::min(division.least_percent, division.percent / static_cast<double>(demands.size()));
  const auto weight = [&](size_t i) { return demands[i].weight; };
  fill(demands, division.percent, least, weight, shares);
  if (division.unmet_demands == UnmetDemands::kEqual) return;
  // Plain max-min fairness has met the demands that fit a fair part. The others share again.
  const auto is_met = [&](size_t i) { return shares[i] >= demands[i].percent - kRounding; };
  double rest_percent = division.percent;
  for (size_t i = 0; i < demands.size(); ++i)
    if (is_met(i)) rest_percent -= shares[i];
  for (size_t i = 0; i < demands.size(); ++i)
    if (!is_met(i)) shares[i] = -1;  // marks the unsatisfied, also while they are filled
  const auto part = [&](size_t i) {
    return shares[i] < 0 ? demands[i].percent * demands[i].weight : 0;
  };
  fill(demands, rest_percent, least, part, shares);
}

}  // namespace itif::slice
