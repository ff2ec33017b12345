#include "measurements.h"

#include <algorithm>

#include "base/check.h"
#include "commands.h"
#include "decision_cost.h"
#include "metrics.h"

namespace itif::sim {
namespace {

constexpr uint64_t kQuickDurationNs = 8'000'000'000, kQuickWarmupNs = 2'000'000'000;

// Speed-ups are ratios of times: the first of the other curve, or of the same one if there is no
// other, over the least.
Ratio speed_up(const Measurement& all, const Stated& stated) {
  Ratio ratio{.stated = stated};
  const Point* base = all.find(all.xs.front(), stated.over);
  if (base == nullptr) base = all.find(all.xs.front(), stated.curve);
  const double first = base->of(stated.metric);
  for (const Point& point : all.points)
    if (point.curve == stated.curve)
      ratio.of_maxima = std::max(ratio.of_maxima, first / point.of(stated.metric));
  return ratio;
}

Ratio compare(const Measurement& all, const Stated& stated) {
  if (all.experiment.axis == Axis::kSlots) return speed_up(all, stated);
  Ratio ratio{.stated = stated};
  double largest = 0, largest_over = 0;
  for (const double x : all.xs) {
    const Point &curve = *all.find(x, stated.curve), &over = *all.find(x, stated.over);
    const double value = curve.of(stated.metric), base = over.of(stated.metric);
    largest = std::max(largest, value);
    largest_over = std::max(largest_over, base);
    if (over.of("in_time") >= kSaturated || base <= 0) continue;
    ratio.least = std::min(ratio.least.value_or(value / base), value / base);
    ratio.most = std::max(ratio.most.value_or(value / base), value / base);
  }
  ratio.of_maxima = largest_over > 0 ? largest / largest_over : 0;
  return ratio;
}

// As many requests wait as arrive within a second.
Status add_decision(const Scenario& scenario, Point& point) {
  ITIF_ASSIGN(const double ns, decision_ns(scenario, static_cast<uint32_t>(point.x)));
  point.values.emplace_back("decision_us", ns / 1e3);
  point.values.emplace_back("decision_share", 100 * ns / 1e6 / point.of("batch_ms"));
  return {};
}

}  // namespace

double Point::of(const std::string& metric) const {
  const auto found = std::ranges::find(values, metric, &std::pair<std::string, double>::first);
  CHECK(found != values.end());
  return found->second;
}

const Point* Measurement::find(double x, const std::string& curve) const {
  const auto found = std::ranges::find_if(
      points, [&](const Point& point) { return point.x == x && point.curve == curve; });
  return found == points.end() ? nullptr : &*found;
}

double Measurement::shown(const Shown& panel, const Point& point) const {
  const double value = point.of(panel.metric);
  return panel.is_speed_up ? points.front().of(panel.metric) / value : value;
}

Result<Measurement> run_experiment(const Experiment& experiment, const Scenario& base,
                                   bool is_quick) {
  Measurement all{.experiment = experiment, .points = {}, .ratios = {}, .xs = experiment.values};
  if (is_quick) all.xs = experiment.quick_values;
  ITIF_ASSIGN(const model::BackboneSpec spec, spec_of(base.model));
  for (const double x : all.xs)
    for (const Curve& curve : experiment.curves) {
      Scenario scenario = scenario_of(experiment, curve, x, base);
      // Batches that generate take seconds.
      if (is_quick && !generates(spec)) {
        scenario.duration_ns = std::min(scenario.duration_ns, kQuickDurationNs);
        scenario.warmup_ns = std::min(scenario.warmup_ns, kQuickWarmupNs);
      }
      ITIF_ASSIGN(const Results results, simulate(scenario));
      Point point{.x = x,
                  .curve = curve.name,
                  .planner = scenario.batching.planner,
                  .scheduler = scenario.batching.scheduler,
                  .values = {}};
      for (const Metric& metric : metrics())
        point.values.emplace_back(metric.name, metric.of(results));
      if (experiment.measures_decisions) ITIF_TRY(add_decision(scenario, point));
      all.points.push_back(std::move(point));
    }
  for (const Stated& stated : experiment.stated) all.ratios.push_back(compare(all, stated));
  return all;
}

}  // namespace itif::sim
