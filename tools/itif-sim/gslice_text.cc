// GSLICE's experiments as a report and as JSON, beside the paper's statements.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commit.h"
#include "gslice.h"
#include "report/figures.h"
#include "report/tables.h"

namespace itif::sim {
namespace {

using nlohmann::ordered_json;

struct Section {
  const char *bench, *title, *text;
};
constexpr Section kSections[] = {
    {"slices", "Figures 8 to 10, Tables 2 and 3: throughput, latency and utilisation",
     "Each group always has 32 requests in flight, texts of 64 tokens or images of 197, and an "
     "objective of 25 ms. `default`: batches of one request, and the groups' batches one after "
     "another. `slab`: batches as large as the objective allows. `tuned slices`: with tuned parts "
     "of the device, too. C1 to C4 are the paper's combinations. MiniLM, BERT-tiny, ViT-base and "
     "ALBERT-large take the place of Alexnet, Mobilenet, ResNet-50 and VGG-19. `batch ms` is the "
     "mean time of an answer's batch, from its start to its end; GUE, the GPU utilisation "
     "efficacy, is answers/s over that time (section 2.1.4)."},
    {"components", "Figures 12a and 12b: what each component brings",
     "Each group is alone, with 64 requests in flight and an objective of 25 ms. `none`: batches "
     "of one request; the group's thread collects a payload from its packets, copies it to the "
     "device, and does this for the next batch once it has seen the end of the one before, 50 µs "
     "after it (assumed). `streams`: it prepares a batch while another runs. `zero copy`: a batch "
     "reads its payloads from their packets. `batching`: slab."},
    {"slab", "Figures 12c and 14: slab and aimd",
     "ALBERT-large, with as many requests in flight as it could answer in four fifths of the "
     "objective. For Figure 12c the objective rises from three times the time of one request to 50 "
     "or 100 ms, and falls again; and a group with which it shared the device leaves. Convergence "
     "is the time from that step to the first of three batches in a row whose sizes are within a "
     "tenth, or one request, of the mean size at last. The paper starts its networks with batches "
     "of one image, which is like the rise."}};

std::string figures_text(const std::vector<bench::Figure>& figures, const std::string& bench) {
  std::string text;
  for (const bench::Figure& figure : figures)
    if (figure.bench == bench) text += fmt::format("\n![{}]({}.svg)\n", figure.title, figure.name);
  return text;
}

std::string sections_text(const GsliceReport& report) {
  const std::vector<bench::Results> all = results_of(report);
  const std::vector<bench::Figure> figures = bench::make_figures(all);
  std::string text;
  for (const Section& section : kSections) {
    const bench::Results& results = *std::ranges::find(all, section.bench, &bench::Results::bench);
    text +=
        fmt::format("\n## {}\n{}\n{}\n\n{}", section.title, figures_text(figures, section.bench),
                    section.text, bench::markdown_tables(results));
    for (const std::string& note : results.notes) text += fmt::format("\n- {}\n", note);
  }
  return text;
}

std::string time_lines_text(const GsliceReport& report) {
  std::string text;
  for (const bench::TimeLine& line : report.time_lines) {
    text += fmt::format("\n## {0}\n\n![{0}]({1}.svg)\n\n", line.title, line.name);
    text +=
        "| s | group | part | arrivals/s | answers/s | requests in a batch | mean ms |\n"
        "|---:|---|---:|---:|---:|---:|---:|\n";
    const size_t all = line.series.front().intervals.size();
    for (size_t i = 0; i < all; i += std::max<size_t>(1, all / 12))
      for (const bench::TimeLine::Series& series : line.series) {
        if (i >= series.intervals.size()) continue;
        const bench::TimeLine::Interval& interval = series.intervals[i];
        if (interval.sent_per_s == 0 && interval.answered_per_s == 0) continue;
        text += fmt::format("| {} | {} | {:.1f} % | {:.0f} | {:.0f} | {:.1f} | {:.1f} |\n", i,
                            series.name, interval.share_percent, interval.sent_per_s,
                            interval.answered_per_s, interval.batch_requests, interval.mean_ms);
      }
  }
  text +=
      "\nIn the paper's Figure 16 the groups' parts go from 30 % to 60 % and 8 % within 14 s, most "
      "of which its instances take to load. Here a part changes between two batches.\n";
  return text;
}

ordered_json json_of(const bench::TimeLine& line) {
  ordered_json groups = ordered_json::array();
  for (const bench::TimeLine::Series& series : line.series) {
    ordered_json one = {{"name", series.name}};
    for (const auto& [field, value] : bench::kTimeLineFields) {
      ordered_json& values = one[field] = ordered_json::array();
      for (const bench::TimeLine::Interval& interval : series.intervals)
        values.push_back(interval.*value);
    }
    groups.push_back(std::move(one));
  }
  return {{"name", line.name}, {"interval_s", line.interval_s}, {"groups", std::move(groups)}};
}

}  // namespace

std::string to_markdown(const std::string& command, const GsliceReport& report) {
  return fmt::format(
             "# GSLICE's figures, simulated\n\n| | |\n|---|---|\n| command | `{}` |\n"
             "| commit | {} |\n| device | simulated v100, {} |\n\n"
             "[simulation.md](../../docs/simulation.md#gslices-figures) says what differs from the "
             "paper.\n",
             command, bench::kCommit, kGsliceType) +
         sections_text(report) + time_lines_text(report);
}

std::string to_json(const GsliceReport& report) {
  ordered_json mixes = ordered_json::array(), components = ordered_json::array(),
               controls = ordered_json::array(), convergences = ordered_json::array(),
               lines = ordered_json::array();
  for (const MixRow& row : report.mixes) {
    ordered_json groups = ordered_json::array();
    for (const MixRow::Group& group : row.groups)
      groups.push_back({{"model", group.model},
                        {"answers_per_s", group.served.per_s},
                        {"execute_ms", group.served.batch_ms},
                        {"gue", group.served.gue()},
                        {"mean_ms", group.mean_ms},
                        {"p50_ms", group.times.p50_ms},
                        {"p99_ms", group.times.p99_ms},
                        {"late_percent", group.times.late_percent}});
    const bench::Served all = row.served();
    mixes.push_back({{"mix", row.mix},
                     {"mode", kWays[static_cast<size_t>(row.way)]},
                     {"answers_per_s", all.per_s},
                     {"execute_ms", all.batch_ms},
                     {"gue", all.gue()},
                     {"groups", std::move(groups)}});
  }
  for (const ComponentRow& row : report.components)
    components.push_back({{"model", row.model},
                          {"components", row.component.name},
                          {"answers_per_s", row.served.per_s},
                          {"p50_ms", row.p50_ms},
                          {"p99_ms", row.p99_ms},
                          {"execute_ms", row.served.batch_ms}});
  for (const ControlRow& row : report.controls)
    controls.push_back({{"control", row.control},
                        {"slo_ms", row.slo_ms},
                        {"answers_per_s", row.served.per_s},
                        {"execute_ms", row.served.batch_ms},
                        {"p99_ms", row.times.p99_ms},
                        {"late_percent", row.times.late_percent}});
  for (const bench::Converged& one : report.convergences)
    convergences.push_back({{"control", one.control},
                            {"slo_ms", one.slo_ms},
                            {"step", one.step},
                            {"convergence_ms", one.ms}});
  for (const auto* all : {&report.convergence_lines, &report.time_lines})
    for (const bench::TimeLine& line : *all) lines.push_back(json_of(line));
  return ordered_json{{"tool", "itif-sim gslice"},
                      {"version", 2},
                      {"commit", bench::kCommit},
                      {"mixes", std::move(mixes)},
                      {"components", std::move(components)},
                      {"controls", std::move(controls)},
                      {"convergences", std::move(convergences)},
                      {"time_lines", std::move(lines)}}
             .dump(2) +
         "\n";
}

}  // namespace itif::sim
