// Runs an experiment and compares its curves as the paper does.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments.h"

namespace itif::sim {

// A run: a curve at x.
struct Point {
  double x = 0;
  std::string curve;
  std::string planner, scheduler;  // with their settings
  // Those of metrics.h. If the experiment measures decisions: decision_us, and decision_share, in
  // % of the batch's time.
  std::vector<std::pair<std::string, double>> values;
  double of(const std::string& metric) const;
};

// The ratio of two curves. Points past saturation are those where the slower curve answers less
// than kSaturated of its requests in time.
struct Ratio {
  Stated stated;
  double of_maxima = 0;  // of the curves' largest values
  // Over the points past saturation; none: no point is.
  std::optional<double> least = {}, most = {};
};
inline constexpr double kSaturated = 95;  // %

struct Measurement {
  Experiment experiment;
  std::vector<Point> points;  // by x, then by curve
  std::vector<Ratio> ratios;
  std::vector<double> xs;
  const Point* find(double x, const std::string& curve) const;
  // The value that a panel draws. REQUIRES: the point exists.
  double shown(const Shown& panel, const Point& point) const;
};

// Errors: those of simulate().
Result<Measurement> run_experiment(const Experiment& experiment, const Scenario& base,
                                   bool is_quick);

}  // namespace itif::sim
