#include "experiments.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/policy_names.h"

namespace itif::sim {
namespace {

const std::vector<double> kRates = {50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800};
const std::vector<double> kQuickRates = {100, 500};

std::vector<Curve> batchings(const std::string& scheduler) {
  std::vector<Curve> curves;
  for (const char* planner : {"naive", "turbo", "concat", "packed"})
    curves.push_back({.name = planner, .planner = planner, .scheduler = scheduler});
  return curves;
}

std::vector<Curve> policies(const std::string& planner,
                            const std::vector<std::string>& schedulers) {
  std::vector<Curve> curves;
  for (const std::string& scheduler : schedulers)
    curves.push_back({.name = scheduler, .planner = planner, .scheduler = scheduler});
  return curves;
}

Experiment rates(const std::string& name, const std::string& scheduler) {
  return {.name = name,
          .title = {},
          .axis = Axis::kRate,
          .values = kRates,
          .quick_values = kQuickRates,
          .curves = batchings(scheduler)};
}

Experiment das_rates() {
  Experiment e = rates("figures-9-10", "das");
  e.title = "Figures 9 and 10: utility and throughput against the rate, under das";
  e.figures = {"9", "10"};
  e.shown = {{.figure = "9", .metric = "utility"},
             {.figure = "10", .metric = "throughput"},
             {.figure = "10", .metric = "padding"},
             {.figure = "10", .metric = "in_time"}};
  e.stated = {{"utility", "concat", "naive", "2.20"},    {"utility", "concat", "turbo", "1.29"},
              {"throughput", "concat", "naive", "2.22"}, {"throughput", "concat", "turbo", "1.48"},
              {"throughput", "packed", "concat", {}},    {"throughput", "packed", "naive", {}}};
  return e;
}

Experiment fcfs_rates(const std::string& figure, double variance, std::vector<Stated> stated) {
  Experiment e = rates("figure-" + figure, "fcfs");
  e.title = fmt::format("Figure {}: throughput against the rate, under fcfs, variance {:g}", figure,
                        variance);
  e.figures = {figure};
  e.shown = {{.figure = figure, .metric = "throughput"}, {.figure = figure, .metric = "padding"}};
  e.variance = variance;
  e.stated = std::move(stated);
  e.stated.push_back({"throughput", "packed", "concat", {}});
  return e;
}

// The paper's largest length, 100, is 18 standard deviations from its mean. If its variance were a
// standard deviation, lengths of 100 would occur.
Experiment deviation_rates() {
  Experiment e = fcfs_rates("11", 400, {});
  e.name = "figure-11-deviation";
  e.title = "Figure 11 if 20 were the lengths' standard deviation: variance 400";
  e.figures = {"11-deviation"};
  for (Shown& shown : e.shown) shown.figure = "11-deviation";
  e.stated = {{"throughput", "concat", "naive", "3.33"}, {"throughput", "concat", "turbo", "1.52"}};
  return e;
}

Experiment slots(const std::string& figure, uint32_t batch_rows, const std::string& paper) {
  return {.name = "figure-" + figure,
          .title = fmt::format("Figure {}: speed-up by slots, {} rows of 400", figure, batch_rows),
          .figures = {figure},
          .axis = Axis::kSlots,
          .values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
          .quick_values = {1, 5},
          .curves = {{.name = "slotted", .planner = "slotted", .scheduler = "fcfs"},
                     {.name = "packed", .planner = "packed", .scheduler = "fcfs"}},
          .shown = {{.figure = figure, .metric = "batch_ms", .is_speed_up = true},
                    {.figure = figure, .metric = "row_us", .is_speed_up = true}},
          .stated = {{"row_us", "slotted", "1 slot", paper}, {"batch_ms", "slotted", "1 slot", {}}},
          .batch_rows = batch_rows,
          .row_tokens = 400};
}

Experiment policies_under(const std::string& figure, const std::string& title, Axis axis,
                          std::vector<double> values, std::vector<double> quick_values) {
  Experiment e{.name = "figure-" + figure,
               .title = title,
               .figures = {figure},
               .axis = axis,
               .values = std::move(values),
               .quick_values = std::move(quick_values),
               .curves = policies("concat", {"fcfs", "sjf", "edf", "das", "das:eta=0.5"}),
               .shown = {{.figure = figure, .metric = "utility"}},
               .rate = 800,
               .batch_rows = 16};
  const bool names_ratio = axis == Axis::kRowTokens;
  e.stated = {{"utility", "das", "sjf", names_ratio ? "1.40" : ""},
              {"utility", "das", "fcfs", names_ratio ? "more than 1.40" : ""},
              {"utility", "das", "edf", names_ratio ? "more than 1.40" : ""},
              {"utility", "das:eta=0.5", "sjf", {}}};
  return e;
}

Experiment decisions() {
  return {.name = "figure-16",
          .title = "Figure 16: a decision of das, as a share of its batch's time",
          .figures = {"16"},
          .axis = Axis::kRate,
          .values = {50, 100, 150, 200, 250, 300, 350, 400, 600, 800},
          .quick_values = {100, 400},
          .curves = {{.name = "das", .planner = "concat", .scheduler = "das"}},
          .shown = {{.figure = "16", .metric = "decision_share"},
                    {.figure = "16", .metric = "decision_us"}},
          .measures_decisions = true};
}

Experiment tenants() {
  std::vector<std::string> schedulers(sched::kPolicyNames.begin(), sched::kPolicyNames.end());
  schedulers.emplace_back("das:eta=0.5");
  schedulers.emplace_back("das:fair");
  Experiment e{.name = "figure-tenants",
               .title = "Not in the paper: packed, four tenants, one of which sends half",
               .figures = {"tenants"},
               .axis = Axis::kRate,
               .values = kRates,
               .quick_values = kQuickRates,
               .curves = policies("packed", schedulers),
               .shown = {{.figure = "tenants", .metric = "utility"},
                         {.figure = "tenants", .metric = "throughput"},
                         {.figure = "tenants", .metric = "least_in_time"},
                         {.figure = "tenants", .metric = "p99"}},
               .has_four_tenants = true};
  for (const std::string& other : schedulers)
    if (other != "das") e.stated.push_back({"utility", "das", other, {}});
  e.stated.push_back({"utility", "das:eta=0.5", "sjf", {}});
  return e;
}

std::vector<Experiment> encoder_experiments() {
  return {das_rates(),
          fcfs_rates("11", 20,
                     {{"throughput", "concat", "naive", "3.33"},
                      {"throughput", "concat", "turbo", "1.52"}}),
          fcfs_rates(
              "12", 100,
              {{"throughput", "concat", "naive", {}}, {"throughput", "concat", "turbo", "1.72"}}),
          deviation_rates(),
          slots("13", 10, "1.18"),
          slots("14", 32, "2.31"),
          policies_under("15a", "Figure 15a: utility against the batch's rows", Axis::kBatchRows,
                         {4, 8, 16, 32, 64}, {8, 32}),
          policies_under("15b", "Figure 15b: utility against the lengths' variance",
                         Axis::kVariance, {10, 20, 50, 100, 200, 400}, {20, 200}),
          policies_under("15c", "Figure 15c: utility against the row's length", Axis::kRowTokens,
                         {100, 150, 200, 250, 300, 350, 400}, {100, 300}),
          decisions(),
          tenants()};
}

// Batches run to their end, as the paper's do, and give their memory back then.
void run_batches_to_their_end(Experiment& e) {
  for (Curve& curve : e.curves) {
    curve.joining = "batches";
    curve.cleaning = "batch";
  }
}

// Speed-ups by early memory cleaning. A slot's size decides what is cleaned together.
void clean_early(Experiment& e, const std::string& paper) {
  const auto curve = [](const char* name, const char* planner, const char* joining,
                        const char* cleaning) {
    return Curve{.name = name,
                 .planner = planner,
                 .scheduler = "fcfs",
                 .joining = joining,
                 .cleaning = cleaning};
  };
  e.curves = {curve("late", "slotted", "batches", "batch"),
              curve("early", "slotted", "batches", "slot"),
              curve("steps, late", "slotted", "steps", "batch"),
              curve("steps, early", "slotted", "steps", "slot"),
              curve("packed", "packed", "steps", "sequence")};
  e.shown = {{.figure = e.figures.front(), .metric = "answer_ms", .is_speed_up = true}};
  e.stated = {{"answer_ms", "early", "late", paper},
              {"answer_ms", "late", "late", {}},
              {"answer_ms", "steps, early", "steps, late", {}}};
}

// The experiments of an encoder-decoder. Decisions and tenants are those of the encoder's.
std::vector<Experiment> decoder_experiments() {
  std::vector<Experiment> all = encoder_experiments();
  std::erase_if(all,
                [](const Experiment& e) { return e.measures_decisions || e.has_four_tenants; });
  for (Experiment& e : all) {
    std::erase_if(e.curves, [](const Curve& curve) { return curve.planner == "turbo"; });
    std::erase_if(e.stated, [](const Stated& stated) { return stated.over == "turbo"; });
    run_batches_to_their_end(e);
    if (e.axis == Axis::kSlots) clean_early(e, e.stated.front().paper);
    if (e.axis == Axis::kRate) {
      e.curves.push_back({.name = "steps",
                          .planner = "packed",
                          .scheduler = e.curves.front().scheduler,
                          .joining = "steps",
                          .cleaning = "sequence"});
      e.stated.push_back({"throughput", "steps", "concat", {}});
    }
    e.name += "-decoder";
  }
  return all;
}

}  // namespace

std::string axis_label(Axis axis) {
  switch (axis) {
    case Axis::kRate: return "requests per second";
    case Axis::kVariance: return "variance of the lengths";
    case Axis::kBatchRows: return "rows of a batch";
    case Axis::kRowTokens: return "tokens of a row";
    case Axis::kSlots: return "slots of a row";
  }
  return {};
}

std::vector<Experiment> paper_experiments(bool generates) {
  return generates ? decoder_experiments() : encoder_experiments();
}

std::string figure_names(bool generates) {
  std::string names;
  for (const Experiment& experiment : paper_experiments(generates))
    for (const std::string& figure : experiment.figures)
      names += (names.empty() ? "" : ", ") + figure;
  return names;
}

Scenario scenario_of(const Experiment& experiment, const Curve& curve, double x,
                     const Scenario& base) {
  Experiment at = experiment;
  const auto whole = static_cast<uint32_t>(x);
  switch (experiment.axis) {
    case Axis::kRate: at.rate = x; break;
    case Axis::kVariance: at.variance = x; break;
    case Axis::kBatchRows: at.batch_rows = whole; break;
    case Axis::kRowTokens: at.row_tokens = whole; break;
    case Axis::kSlots: at.slots = whole; break;
  }
  Scenario s = base;
  s.lengths.variance = at.variance;
  config::Batching& batching = s.batching;
  batching.scheduler = curve.scheduler;
  batching.planner = curve.planner;
  if (curve.planner == "concat" || curve.planner == "slotted")
    batching.planner += fmt::format(":row_tokens={}", at.row_tokens);
  if (curve.planner == "slotted")
    batching.planner += fmt::format(",slot_tokens={}", at.row_tokens / at.slots);
  batching.max_tokens = at.batch_rows * at.row_tokens;
  if (!curve.joining.empty()) batching.joining = curve.joining;
  if (!curve.cleaning.empty()) batching.cleaning = curve.cleaning;
  // TNB and TTB have a request in each row.
  batching.max_requests = curve.planner == "naive" || curve.planner == "turbo"
                              ? at.batch_rows
                              : batching.max_tokens / s.lengths.from;
  if (at.rate > 0) {
    s.arrivals.rate = at.rate;
  } else {
    // Every batch has as many requests as its rows hold on average. Slots that are not quite full
    // need more rows, which fit the pass.
    batching.max_requests = batching.max_tokens / static_cast<uint32_t>(s.lengths.mean);
    batching.max_tokens *= 2;
    s.arrivals.kind = ArrivalKind::kClosed;
    // A batch runs, and the next ones wait. A generating one may run for seconds.
    s.arrivals.concurrency = (curve.joining.empty() ? 4 : 2) * batching.max_requests;
    s.deadlines.kind = DeadlineKind::kNone;
  }
  batching.max_beams = batching.max_requests;
  if (experiment.has_four_tenants) {
    s.tenants.clear();
    for (int i = 0; i < 4; ++i)
      s.tenants.push_back({.name = fmt::format("tenant{}", i + 1), .share = i == 0 ? 3.0 : 1.0});
  }
  return s;
}

}  // namespace itif::sim
