// The knee of a group: the share of a device past which its throughput hardly rises.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 2.1.3 and 3.2.3. The paper calls the improvement past the knee
// marginal; here the highest throughput of any share exceeds the knee's by at most a threshold.
#pragma once

#include <span>

namespace itif::slice {

// A measured share of the device.
struct SharePoint {
  double percent = 0;
  double throughput = 0;  // requests or tokens per second
};

// Returns the smallest measured share from which on every share has at least 1 / (1 + `threshold`)
// of the highest throughput (0.1: 10 %). Returns the largest measured share if that one has less,
// and 0 without points. A disturbed point makes the knee larger. REQUIRES: ascending percents.
double knee_percent(std::span<const SharePoint> points, double threshold) noexcept;

}  // namespace itif::slice
