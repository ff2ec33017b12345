// itif-sim knee: throughput and latency of a group by its part of the device and its batch size,
// and the knees. GSLICE's Figure 3.
#include "slice/knee.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "plots.h"
#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

struct Measured {
  double percent = 0;
  double requests_per_s = 0, batch_ms = 0;
};
struct BatchCurve {
  uint32_t batch = 0;  // requests
  std::vector<Measured> points = {};
  double knee_percent = 0;
};

// Batches of `batch` requests on a part of the device, one after another.
Result<Measured> measure(Scenario scenario, double percent, uint32_t batch, uint64_t duration_ns) {
  scenario.slices = {.mode = SliceMode::kFixed};
  scenario.slice = {.percent = percent};
  scenario.arrivals = {.kind = ArrivalKind::kClosed, .concurrency = 2 * batch};  // one waits
  scenario.batching.max_requests = batch;
  scenario.batching.batch_control = "fixed";
  scenario.batching.max_wait_ns = 0;
  scenario.deadlines = {};
  scenario.client.max_in_flight = std::max(scenario.client.max_in_flight, 2 * batch);
  scenario.data_plane.max_contexts = std::max(scenario.data_plane.max_contexts, 4 * batch);
  scenario.data_plane.tenant_max_contexts = scenario.data_plane.max_contexts;
  scenario.duration_ns = duration_ns;
  scenario.warmup_ns = duration_ns / 10;
  ITIF_ASSIGN(const Results results, simulate(scenario));
  const double busy_ns = static_cast<double>(results.busy_ns) / (percent / 100);
  return Measured{
      .percent = percent,
      .requests_per_s = results.per_second(static_cast<double>(results.total().answered)),
      .batch_ms = results.batches == 0 ? 0 : busy_ns / static_cast<double>(results.batches) / 1e6};
}

bench::Figure figure_of(const std::vector<BatchCurve>& curves) {
  const auto panel = [&](const char* title, const char* label, double Measured::*value) {
    bench::Panel panel = {.title = title, .x_label = "part of the device, %", .y_label = label};
    panel.x_scale = bench::Panel::Scale::kLinear;
    for (const BatchCurve& curve : curves)
      panel.series.push_back(fmt::format("batch of {}", curve.batch));
    for (size_t i = 0; i < curves.front().points.size(); ++i) {
      bench::Panel::Line line = {.x = fmt::format("{:g}", curves.front().points[i].percent),
                                 .y = {}};
      for (const BatchCurve& curve : curves) line.y.push_back(curve.points[i].*value);
      panel.lines.push_back(std::move(line));
    }
    return panel;
  };
  return {.name = "knee",
          .title = "itif-sim knee",
          .bench = {},
          .panels = {panel("throughput", "requests/s", &Measured::requests_per_s),
                     panel("time of a batch", "ms", &Measured::batch_ms)}};
}

std::string table_of(const std::vector<BatchCurve>& curves) {
  std::string out = "requests/s\n" + fmt::format("{:<10}", "part");
  for (const BatchCurve& curve : curves)
    out += fmt::format("{:>14}", fmt::format("batch of {}", curve.batch));
  for (size_t i = 0; i < curves.front().points.size(); ++i) {
    out += fmt::format("\n{:<10}", fmt::format("{:g} %", curves.front().points[i].percent));
    for (const BatchCurve& curve : curves)
      out += fmt::format("{:>14.1f}", curve.points[i].requests_per_s);
  }
  out += fmt::format("\n{:<10}", "knee");
  for (const BatchCurve& curve : curves)
    out += fmt::format("{:>14}", fmt::format("{:g} %", curve.knee_percent));
  return out + "\n";
}

std::string json_of(const Scenario& scenario, const std::vector<BatchCurve>& curves,
                    double threshold) {
  nlohmann::ordered_json batches = nlohmann::ordered_json::array();
  for (const BatchCurve& curve : curves) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const Measured& point : curve.points)
      points.push_back({{"percent", point.percent},
                        {"requests_per_s", point.requests_per_s},
                        {"batch_ms", point.batch_ms}});
    batches.push_back({{"batch", curve.batch},
                       {"knee_percent", curve.knee_percent},
                       {"points", std::move(points)}});
  }
  return nlohmann::ordered_json{{"tool", "itif-sim knee"},
                                {"version", 1},
                                {"scenario", scenario.path},
                                {"threshold", threshold},
                                {"batches", std::move(batches)}}
             .dump(2) +
         "\n";
}

}  // namespace

Status knee_command(const KneeOptions& options) {
  ITIF_ASSIGN(const Scenario scenario, load_scenario(options.scenario));
  ITIF_TRY(check_one_group(scenario));
  ITIF_ASSIGN(const model::BackboneSpec spec, spec_of(scenario.model));
  if (generates(spec))
    return fail(Code::kUnsupported,
                fmt::format("{}: a model that generates has no batches of one size: choose a text "
                            "encoder",
                            scenario.path));
  if (!options.output.plot.empty()) ITIF_TRY(make_writable(options.output.plot));
  std::vector<BatchCurve> curves;
  for (const uint32_t batch : options.batches) {
    BatchCurve curve = {.batch = batch};
    std::vector<slice::SharePoint> points;
    for (const double percent : options.percents) {
      ITIF_ASSIGN(const Measured point, measure(scenario, percent, batch, options.duration_ns));
      curve.points.push_back(point);
      points.push_back({.percent = percent, .throughput = point.requests_per_s});
    }
    curve.knee_percent = slice::knee_percent(points, options.threshold);
    curves.push_back(std::move(curve));
  }
  fmt::print("{}",
             options.output.json ? json_of(scenario, curves, options.threshold) : table_of(curves));
  if (!options.output.plot.empty()) return draw(figure_of(curves), options.output.plot);
  return {};
}

}  // namespace itif::sim
