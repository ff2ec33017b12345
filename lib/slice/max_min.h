// Divides a device among groups by max-min fairness: demands that fit a fair part of what is left
// are met, smallest first. The other groups share the rest.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 3.2.2 and 3.2.3. The paper gives no weights to tenants; here a
// group of weight 2 has twice the fair part of a group of weight 1.
//
// No share exceeds its demand: lending what is left over is the caller's or the device's work. Pure
// functions.
#pragma once

#include <cstdint>
#include <span>

namespace itif::slice {

// How the groups whose demands are not met share the rest.
enum class UnmetDemands : uint8_t {
  // In proportion to demand times weight: the paper's. An unsatisfied group can get less than a
  // satisfied one: demands of 30, 40 and 100 % get 30, 20 and 50 %.
  kProportional,
  // In proportion to weight: plain max-min fairness. These demands get 30, 35 and 35 %.
  kEqual,
};

struct Demand {
  double percent = 0;  // at least 0
  double weight = 1;   // above 0
};

struct Division {
  double percent = 100;  // of the device, for all groups together
  // No group gets less. A smaller demand counts as this much. With more groups than fit, each gets
  // an equal part.
  double least_percent = 1;
  UnmetDemands unmet_demands = UnmetDemands::kProportional;
};

// Sets each group's share, in percent. Their sum is the smaller of the sum of demands and
// `division.percent`. Allocates nothing. REQUIRES: as many shares as demands.
void divide(std::span<const Demand> demands, const Division& division,
            std::span<double> shares) noexcept;

}  // namespace itif::slice
