#include "slice/knee.h"

#include <algorithm>

namespace itif::slice {

double knee_percent(std::span<const SharePoint> points, double threshold) noexcept {
  if (points.empty()) return 0;
  const double most = std::ranges::max_element(points, {}, &SharePoint::throughput)->throughput;
  const double enough = most / (1 + threshold);
  double knee = points.back().percent;
  for (size_t i = points.size(); i-- > 0 && points[i].throughput >= enough;)
    knee = points[i].percent;
  return knee;
}

}  // namespace itif::slice
