// A group's throughput by its share of a device, measured for some batch sizes, and the knees that
// follow from it. GSLICE's Figure 3 for one group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slice/knee.h"

namespace itif::slice {

// A batch size, with its throughput in requests per second by share, in ascending order of shares.
struct BatchCurve {
  uint32_t requests = 0;
  uint32_t tokens = 0;  // of each request
  std::vector<SharePoint> points = {};
};

struct KneeProfile {
  // The most throughput that a share larger than the knee may still gain. The paper calls it
  // marginal.
  static constexpr double kThreshold = 0.1;

  // The measured device and backbone, one line each. The curves are valid for this pair only.
  std::string device;
  std::string backbone;
  std::vector<BatchCurve> curves;  // by number of requests, ascending

  // Returns the knee of the largest measured batch, which needs the largest share; 0: no curves.
  double knee_percent(double threshold = kThreshold) const noexcept {
    return curves.empty() ? 0 : slice::knee_percent(curves.back().points, threshold);
  }
};

}  // namespace itif::slice
