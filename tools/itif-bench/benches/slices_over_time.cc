// Figures 15 and 16 of GSLICE: a second group arrives and the first one ends; and two groups that
// start with equal parts of the device tune them.
#include "benches/slices_over_time.h"

#include <fmt/format.h>

namespace itif::bench {
namespace {

constexpr uint32_t kTimeLineInFlight = 16;
constexpr uint32_t kTimeLinePeriods = 48;
// Arrivals of Figure 16, as parts of what a group could answer alone, one by one.
constexpr double kHeavyLoad = 0.6, kLightLoad = 0.15;
constexpr double kPaperHeavyPercent = 60, kPaperLightPercent = 8;

struct Arrival {
  const char *name, *title;
  sched::BatchControlKind control;
  Sharing sharing;
  double paper;  // answers/s of the first group beside the second, over those alone; from the plot
};
constexpr Arrival kArrivals[] = {{"slab", "Figure 15a: slab, without shares of the device",
                                  sched::BatchControlKind::kSlab, Sharing::kNone, 200.0 / 550},
                                 {"slices", "Figure 15b: slab and tuned shares",
                                  sched::BatchControlKind::kSlab, Sharing::kTuned, 300.0 / 550},
                                 {"clipper", "Figure 15c: aimd, without shares of the device",
                                  sched::BatchControlKind::kAimd, Sharing::kNone, 200.0 / 500}};

TimeLine time_line_of(const ServedGroups& groups, const std::vector<std::string>& names,
                      const std::string& name, const std::string& title, double interval_s) {
  TimeLine line = {.name = name, .title = title, .interval_s = interval_s};
  for (size_t i = 0; i < names.size(); ++i)
    line.series.push_back({.name = names[i], .intervals = groups.load(i).intervals()});
  return line;
}

// Mean answers/s of the periods [from, until), without the first quarter.
double mean_per_s(const GroupLoad& load, size_t from, size_t until) {
  from += (until - from) / 4;
  double sum = 0;
  for (size_t i = from; i < until; ++i) sum += load.intervals()[i].answered_per_s;
  return sum / static_cast<double>(until - from);
}

std::string arrival_case(const Arrival& arrival) {
  return fmt::format("figure 15 {}", arrival.name);
}
constexpr char kTuningCase[] = "figure 16";

// The second group is there from a third of the time on, the first one until two thirds.
Status run_arrival(const SliceBed& bed, const Arrival& arrival, Report& report) {
  const std::string row = arrival_case(arrival);
  if (!bed.options.wants(row)) return {};
  ITIF_ASSIGN(const auto groups,
              ServedGroups::make(bed.options, bed.device, bed.dtype, arrival.sharing));
  std::vector<std::string> names;
  for (const GsliceModel& model : {kResNet, kVgg}) {
    ITIF_ASSIGN(const ServedModel* served, bed.model(model));
    ITIF_TRY(groups->add(*served, {.control = arrival.control},
                         {.in_flight = kTimeLineInFlight, .slo_ns = bed.slo_ns}));
    names.push_back(served->name);
  }
  constexpr size_t kThird = kTimeLinePeriods / 3;
  const double third_s = bed.options.run_seconds() * 4 / 3;
  const double interval_s = third_s / kThird;
  const auto third_ns = static_cast<uint64_t>(third_s * 1e9);
  groups->begin(0);
  ITIF_TRY(groups->warm_up(0));
  groups->draw_time_lines(static_cast<uint64_t>(interval_s * 1e9));
  groups->run_for(third_ns);
  groups->begin(1);
  groups->run_for(third_ns);
  groups->end(0);
  groups->run_for(third_ns + static_cast<uint64_t>(interval_s * 1e9));
  ITIF_TRY(groups->check());
  const GroupLoad &first = groups->load(0), &second = groups->load(1);
  const double alone = mean_per_s(first, 0, kThird);
  const double beside = mean_per_s(first, kThird, 2 * kThird);
  const auto add = [&](size_t group, const char* mode, double value, const char* unit) {
    report.add({.name = fmt::format("{}, {}, {}", row, names[group], bed.dtype),
                .mode = mode,
                .value = value,
                .unit = unit});
  };
  add(0, "alone", alone, "answers/s over time");
  add(0, "beside the other", beside, "answers/s over time");
  add(1, "beside the other", mean_per_s(second, kThird, 2 * kThird), "answers/s over time");
  add(1, "alone", mean_per_s(second, 2 * kThird, 3 * kThird), "answers/s over time");
  if (alone > 0)
    report.add({.name = fmt::format("{}, {}, {}", row, names[0], bed.dtype),
                .mode = "beside the other / alone",
                .value = beside / alone,
                .unit = "of its answers/s",
                .paper = arrival.paper});
  report.add(time_line_of(*groups, names, fmt::format("figure-15-{}", arrival.name), arrival.title,
                          interval_s));
  return {};
}

Status run_tuning(const SliceBed& bed, Report& report) {
  const std::string row = kTuningCase;
  if (!bed.options.wants(row)) return {};
  ITIF_ASSIGN(const auto groups,
              ServedGroups::make(bed.options, bed.device, bed.dtype, Sharing::kTuned));
  struct Part {
    GsliceModel model;
    double load, paper_percent;
  };
  const Part parts[] = {{kVgg, kHeavyLoad, kPaperHeavyPercent},
                        {kResNet, kLightLoad, kPaperLightPercent}};
  std::vector<std::string> names;
  for (const Part& part : parts) {
    ITIF_ASSIGN(const ServedModel* served, bed.model(part.model));
    ITIF_TRY(groups->add(*served, {},
                         {.in_flight = 256,
                          .rate = part.load * 1e9 / static_cast<double>(served->alone_ns),
                          .slo_ns = bed.slo_ns}));
    names.push_back(served->name);
  }
  const double interval_s = bed.options.run_seconds() * 4 / kTimeLinePeriods;
  groups->draw_time_lines(static_cast<uint64_t>(interval_s * 1e9));
  for (size_t i = 0; i < names.size(); ++i) groups->begin(i);
  groups->run_for(static_cast<uint64_t>(bed.options.run_seconds() * 4 * 1e9));
  ITIF_TRY(groups->warm_up(0));
  for (size_t i = 0; i < names.size(); ++i)
    report.add({.name = fmt::format("{}, {}, {}", row, names[i], bed.dtype),
                .mode = "at the end",
                .value = groups->share_percent(i),
                .unit = "% of the device",
                .paper = parts[i].paper_percent});
  report.add(time_line_of(*groups, names, "figure-16",
                          "Figure 16: two groups tune their parts of the device", interval_s));
  return {};
}

}  // namespace

std::vector<std::string> slices_over_time_cases() {
  std::vector<std::string> names;
  for (const Arrival& arrival : kArrivals) names.push_back(arrival_case(arrival));
  names.emplace_back(kTuningCase);
  return names;
}

Status slices_over_time(const SliceBed& bed, Report& report) {
  for (const Arrival& arrival : kArrivals) ITIF_TRY(run_arrival(bed, arrival, report));
  return run_tuning(bed, report);
}

}  // namespace itif::bench
