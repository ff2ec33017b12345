// GSLICE's experiments as a report and as JSON, beside the paper's statements.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commit.h"
#include "gslice.h"
#include "report/gslice_paper.h"

namespace itif::sim {
namespace {

using nlohmann::ordered_json;

// Our mixes, and the paper's networks whose place they take.
struct Counterpart {
  const char *mix, *networks;
};
constexpr Counterpart kCounterparts[] = {{"minilm-l6", "Alexnet"},
                                         {"bert-tiny", "Mobilenet"},
                                         {"vit-base", "ResNet-50"},
                                         {"albert-large", "VGG-19"},
                                         {"C1", "Alexnet, ResNet-50"},
                                         {"C2", "Alexnet, VGG-19"},
                                         {"C3", "Alexnet, ResNet-50, VGG-19"},
                                         {"C4", "Alexnet, Mobilenet, ResNet-50, VGG-19"}};

constexpr const char* kComponentsFigure = "figure-12ab";

const MixRow& row_of(const GsliceReport& report, const std::string& mix, const std::string& mode) {
  return *std::ranges::find_if(
      report.mixes, [&](const MixRow& row) { return row.mix == mix && row.mode == mode; });
}

std::string mixes_text(const GsliceReport& report) {
  std::string text =
      "\n## Figures 8 to 10: throughput and latency\n\nEach group always has 32 requests in "
      "flight, texts of 64 tokens or images of 197, and an objective of 25 ms. `default`: batches "
      "of one request, and the "
      "groups' batches one after another. `slab`: batches as large as the objective allows. "
      "`slices`: with tuned parts of the device, too. C1 to C4 are the paper's combinations.\n\n"
      "| groups | mode | answers/s | batch, ms | mean ms | p99 ms | each group's answers/s |\n"
      "|---|---|---:|---:|---:|---:|---|\n";
  for (const MixRow& row : report.mixes) {
    double p99_ms = 0;
    std::string each;
    for (const MixRow::Group& group : row.groups) {
      p99_ms = std::max(p99_ms, group.p99_ms);
      each += fmt::format("{}{} {:.0f}", each.empty() ? "" : ", ", group.model, group.per_s);
    }
    text += fmt::format("| {} | {} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", row.mix, row.mode,
                        row.per_s(), row.execute_ms(), row.mean_ms(), p99_ms, each);
  }
  text +=
      "\n## Tables 2 and 3: GPU utilisation efficacy\n\nGUE is throughput over latency (section "
      "2.1.4), here answers per second over the mean time in ms from the launch of a batch to its "
      "end, over all groups. Gains are in % over `default`.\n\n"
      "| groups | GUE default | slab | slices | gain of slab | paper | gain of slices | paper | "
      "paper's networks |\n|---|---:|---:|---:|---:|---:|---:|---:|---|\n";
  for (const auto& [mix, networks] : kCounterparts) {
    const bench::StatedGain& stated = bench::stated_gain(networks);
    const double base = row_of(report, mix, "default").gue();
    const double slab = row_of(report, mix, "slab").gue();
    const double slices = row_of(report, mix, "slices").gue();
    text += fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:g} | {:.0f} | {:g} | {} |\n",
                        mix, base, slab, slices, 100 * (slab / base - 1), stated.slab,
                        100 * (slices / base - 1), stated.slices, networks);
  }
  return text;
}

const ComponentRow& component_of(const GsliceReport& report, const std::string& model,
                                 const std::string& mode) {
  return *std::ranges::find_if(report.components, [&](const ComponentRow& row) {
    return row.model == model && row.mode == mode;
  });
}

std::string_view network_of(const std::string& model) {
  return std::ranges::find(kCounterparts, model, &Counterpart::mix)->networks;
}

std::string ratio_text(double ours, std::optional<double> stated) {
  return fmt::format("{:.2f}{}", ours, stated ? fmt::format(" [{:.2f}]", *stated) : "");
}

std::string components_text(const GsliceReport& report) {
  std::string text =
      "\n## Figures 12a and 12b: what each component brings\n\n![Figures 12a and 12b](" +
      std::string(kComponentsFigure) +
      ".svg)\n\nEach group is alone, with 64 requests in flight and an objective of 25 ms. `none`: "
      "batches of one request; the group's thread collects a payload from its packets, copies it "
      "to "
      "the device, and does this for the next batch once it has seen the end of the one before, "
      "50 µs after it (assumed). `streams`: it prepares a batch while another runs. `zero copy`: a "
      "batch reads its payloads from their packets. `batching`: slab. A batch's time is from its "
      "launch to its end. Ratios are over `none`; the paper's gains, where its text states them, "
      "are in brackets. The paper's latencies with a component are 2 to 3 times those without.\n\n"
      "| group | components | answers/s | gain | batch, ms | ratio | median latency, ms | paper's "
      "network |\n|---|---|---:|---:|---:|---:|---:|---|\n";
  for (const ComponentRow& row : report.components) {
    const ComponentRow& none = component_of(report, row.model, bench::kComponents[0].name);
    const auto component =
        std::ranges::find_if(bench::kComponents, [&](const auto& c) { return row.mode == c.name; });
    const std::string_view network = network_of(row.model);
    text += fmt::format("| {} | {} | {:.0f} | {} | {:.2f} | {:.2f} | {:.2f} | {} |\n", row.model,
                        row.mode, row.per_s,
                        ratio_text(row.per_s / none.per_s, bench::stated_gain(network, *component)),
                        row.execute_ms, row.execute_ms / none.execute_ms, row.p50_ms, network);
  }
  return text;
}

std::string controls_text(const GsliceReport& report) {
  std::string text =
      "\n## Figures 12c and 14: slab and aimd\n\nALBERT-large, with as many requests in flight as "
      "the objective has "
      "milliseconds. Another group shares the device at first. Convergence is the time from its "
      "end to the first tenth "
      "of a second with 95 % of the final throughput. Paper: slab converges within 300 ms at 50 ms "
      "and within 500 ms at 100 ms, aimd after 3.5 and 10 s; slab's throughput is 2 to 50 % "
      "higher.\n\n"
      "| objective | control | answers/s | p99 ms | later than the objective | convergence |\n"
      "|---:|---|---:|---:|---:|---:|\n";
  for (const ControlRow& row : report.controls)
    text += fmt::format("| {:g} ms | {} | {:.0f} | {:.1f} | {:.1f} % | {:.0f} ms |\n", row.slo_ms,
                        row.control, row.per_s, row.p99_ms, row.late_percent, row.convergence_ms);
  return text;
}

std::string time_lines_text(const GsliceReport& report) {
  std::string text;
  for (const TimeLine& line : report.time_lines) {
    text += fmt::format("\n## {0}\n\n![{0}]({1}.svg)\n\n", line.title, line.name);
    text +=
        "| s | group | part | arrivals/s | answers/s | mean ms |\n|---:|---|---:|---:|---:|---:|\n";
    const size_t all = line.results.groups.front().intervals.size();
    for (size_t i = 0; i < all; i += std::max<size_t>(1, all / 12))
      for (const GroupResults& group : line.results.groups) {
        if (i >= group.intervals.size()) continue;
        const GroupInterval& interval = group.intervals[i];
        if (interval.sent == 0 && interval.answered == 0) continue;
        text += fmt::format("| {} | {} | {:.1f} % | {} | {} | {:.1f} |\n", i, group.name,
                            interval.share_percent, interval.sent, interval.answered,
                            interval.mean_latency_ms());
      }
  }
  text +=
      "\nIn the paper's Figure 16 the groups' parts go from 30 % to 60 % and 8 % within 14 s, most "
      "of which its instances take to load. Here a part changes between two batches.\n";
  return text;
}

}  // namespace

bench::Figure components_figure(const GsliceReport& report) {
  const auto panel = [&](const char* title, const char* label, double ComponentRow::*value) {
    bench::Panel panel = {.title = title, .y_label = label, .kind = bench::Panel::Kind::kBars};
    for (const bench::Component& component : bench::kComponents)
      panel.series.push_back(component.name);
    for (const ComponentRow& row : report.components) {
      if (panel.lines.empty() || panel.lines.back().x != row.model)
        panel.lines.push_back({.x = row.model, .y = {}});
      panel.lines.back().y.push_back(row.*value);
    }
    return panel;
  };
  return {.name = kComponentsFigure,
          .title = "Figures 12a and 12b: what each component brings, simulated v100",
          .bench = {},
          .panels = {panel("throughput", "answers/s", &ComponentRow::per_s),
                     panel("mean time of a batch", "ms", &ComponentRow::execute_ms)}};
}

std::string to_markdown(const std::string& command, const GsliceReport& report) {
  return fmt::format(
             "# GSLICE's figures, simulated\n\n| | |\n|---|---|\n| command | `{}` |\n"
             "| commit | {} |\n| device | simulated v100, f16 |\n\n"
             "[simulation.md](../../docs/simulation.md#gslices-figures) says what differs from the "
             "paper.\n",
             command, bench::kCommit) +
         mixes_text(report) + components_text(report) + controls_text(report) +
         time_lines_text(report);
}

std::string to_json(const GsliceReport& report) {
  ordered_json mixes = ordered_json::array(), components = ordered_json::array(),
               controls = ordered_json::array(), lines = ordered_json::array();
  for (const MixRow& row : report.mixes) {
    ordered_json groups = ordered_json::array();
    for (const MixRow::Group& group : row.groups)
      groups.push_back({{"model", group.model},
                        {"answers_per_s", group.per_s},
                        {"mean_ms", group.mean_ms},
                        {"p99_ms", group.p99_ms}});
    mixes.push_back({{"mix", row.mix},
                     {"mode", row.mode},
                     {"answers_per_s", row.per_s()},
                     {"mean_ms", row.mean_ms()},
                     {"execute_ms", row.execute_ms()},
                     {"gue", row.gue()},
                     {"groups", std::move(groups)}});
  }
  for (const ComponentRow& row : report.components)
    components.push_back({{"model", row.model},
                          {"components", row.mode},
                          {"answers_per_s", row.per_s},
                          {"p50_ms", row.p50_ms},
                          {"execute_ms", row.execute_ms}});
  for (const ControlRow& row : report.controls)
    controls.push_back({{"control", row.control},
                        {"slo_ms", row.slo_ms},
                        {"answers_per_s", row.per_s},
                        {"p99_ms", row.p99_ms},
                        {"late_percent", row.late_percent},
                        {"convergence_ms", row.convergence_ms}});
  for (const TimeLine& line : report.time_lines) {
    ordered_json groups = ordered_json::array();
    for (const GroupResults& group : line.results.groups) {
      ordered_json percents = ordered_json::array(), answered = ordered_json::array(),
                   means = ordered_json::array();
      for (const GroupInterval& interval : group.intervals) {
        percents.push_back(interval.share_percent);
        answered.push_back(interval.answered);
        means.push_back(interval.mean_latency_ms());
      }
      groups.push_back({{"name", group.name},
                        {"percent", std::move(percents)},
                        {"answers_per_s", std::move(answered)},
                        {"mean_ms", std::move(means)}});
    }
    lines.push_back({{"name", line.name}, {"groups", std::move(groups)}});
  }
  return ordered_json{{"tool", "itif-sim gslice"},
                      {"version", 1},
                      {"commit", bench::kCommit},
                      {"mixes", std::move(mixes)},
                      {"components", std::move(components)},
                      {"controls", std::move(controls)},
                      {"time_lines", std::move(lines)}}
             .dump(2) +
         "\n";
}

}  // namespace itif::sim
