#include "slice/knee.h"

namespace itif::slice {

double knee_percent(std::span<const SharePoint> points, double threshold) noexcept {
  if (points.empty()) return 0;
  const double enough = points.back().throughput / (1 + threshold);
  double knee = points.back().percent;
  for (size_t i = points.size(); i-- > 0 && points[i].throughput >= enough;)
    knee = points[i].percent;
  return knee;
}

}  // namespace itif::slice
