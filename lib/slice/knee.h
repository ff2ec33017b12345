// The knee of a group: the share of a device past which its throughput hardly rises.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 2.1.3 and 3.2.3. The paper calls the improvement past the knee
// marginal; here it is at most a threshold, against the highest throughput of any share.
#pragma once

#include <span>

namespace itif::slice {

// A measured share of the device.
struct SharePoint {
  double percent = 0;
  double throughput = 0;  // requests or tokens per second
};

// Returns the smallest measured share that, like every larger one, has at least the highest
// throughput of any share / (1 + `threshold`), with 0.1 for 10 %; 0: no points. A disturbed point
// makes the knee larger. If the whole device is slower than that, the knee is 100 %: no bound.
// REQUIRES: ascending percents.
double knee_percent(std::span<const SharePoint> points, double threshold) noexcept;

}  // namespace itif::slice
