// The knee of a group: the share of a device past which its throughput hardly rises.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 2.1.3 and 3.2.3. The paper calls the improvement past the knee
// marginal; here it is a threshold, against the whole device.
#pragma once

#include <span>

namespace itif::slice {

// A measured share of the device.
struct SharePoint {
  double percent = 0;
  double throughput = 0;  // requests or tokens per second
};

// Returns the smallest measured share from which every larger one has all but `threshold` of the
// most throughput of any share, as 0.1 for 10 %. A disturbed point makes the knee larger, and a
// whole device that was slower than a smaller share gives 100 %: no bound. 0: no points. REQUIRES:
// ascending percents.
double knee_percent(std::span<const SharePoint> points, double threshold) noexcept;

}  // namespace itif::slice
