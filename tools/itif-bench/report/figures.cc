#include "report/figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/gslice_figures.h"
#include "report/panels.h"
#include "report/time_line_figure.h"

namespace itif::bench {
namespace {

// part: "4 tenants", word: "tenants" → "4"; empty if `part` differs.
std::string number_before(const std::string& part, const std::string& word) {
  const size_t space = part.find(' ');
  if (space == std::string::npos || part.substr(space + 1) != word ||
      part.find_first_not_of("0123456789") != space)
    return {};
  return part.substr(0, space);
}

std::string words_of(const std::string& part) {
  std::string words = part;
  std::erase_if(words, [](char c) { return c >= '0' && c <= '9'; });
  const size_t first = words.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return words.substr(first, words.find_last_not_of(' ') + 1 - first);
}
std::string digits_of(std::string part) {
  std::erase_if(part, [](char c) { return c < '0' || c > '9'; });
  return part;
}

// Speed-ups of one instance (itif, packed) over each baseline with four tenants: ours and, if
// known, the thesis's.
Panel speed_ups(const Results& results, const std::string& dtype, const std::string& one_instance) {
  Panel panel{.title = one_instance + " against each baseline: 4 tenants, one request each",
              .y_label = "time of the baseline / time of " + one_instance,
              .kind = Panel::Kind::kBars};
  const auto in = [&](const Row& row) {
    const auto parts = parts_of(row.name);
    return parts.size() == 3 && parts[1] == "4 tenants" && parts[2] == dtype && row.unit == "ms";
  };
  const std::vector<std::string> baselines =
      one_instance == "itif" ? std::vector<std::string>{"seq", "multi-stream", "mps"}
                             : std::vector<std::string>{"seq", "multi-stream", "mps", "seq-fused"};
  for (const Row& itif : results.rows) {
    if (!in(itif) || itif.mode != one_instance) continue;
    const std::string model = parts_of(itif.name)[0];
    const auto is_baseline = [&](const Row& row) {
      return in(row) && row.name == itif.name &&
             std::ranges::find(baselines, row.mode) != baselines.end();
    };
    for (const Row& row : results.rows)
      if (is_baseline(row)) put(panel, {model, row.mode}, row.value / itif.value);
    for (const Row& row : results.rows)
      if (is_baseline(row) && row.paper && itif.paper)
        put(panel, {model, row.mode + " (thesis)"}, *row.paper / *itif.paper);
  }
  for (Panel::Line& line : panel.lines) line.y.resize(panel.series.size());
  return panel;
}

// Speed-ups of one instance over sequential execution, a panel per model.
void few_tokens(const Results& results, std::vector<Figure>& figures) {
  for (const std::string& dtype : dtypes(results)) {
    Figure figure{.name = "few-tokens-" + dtype,
                  .title = "Few tokens per tenant: one instance against sequential, " + dtype,
                  .bench = results.bench};
    const auto model_of = [](const Row& row) { return parts_of(row.name)[0]; };
    for (const std::string& model : distinct(results, model_of))
      figure.panels.push_back(panel_of(
          results, {.title = model, .y_label = "times as fast", .kind = Panel::Kind::kBars},
          "times", [&](const auto& parts, const Row& row) -> std::optional<Point> {
            if (parts.size() != 4 || parts[0] != model || parts[3] != dtype) return {};
            return Point{parts[1] + ", " + parts[2], row.mode};
          }));
    add(figures, std::move(figure));
  }
}

void tenants(const Results& results, std::vector<Figure>& figures) {
  for (const std::string& dtype : dtypes(results)) {
    add(figures,
        {.name = "figure-5.1-" + dtype,
         .title = "Figure 5.1: speed-up of one instance over each baseline, " + dtype,
         .bench = results.bench,
         .panels = {speed_ups(results, dtype, "itif"), speed_ups(results, dtype, "packed")}});
    Figure figure{.name = "tenants-" + dtype,
                  .title = "Table 5.2 continued: latency against tenants, " + dtype,
                  .bench = results.bench};
    const auto first_part = [](const Row& row) {
      const auto parts = parts_of(row.name);
      return parts.size() == 3 ? parts[0] : std::string();
    };
    for (const std::string& model : distinct(results, first_part))
      figure.panels.push_back(
          panel_of(results, {.title = model, .x_label = "tenants", .y_label = "ms"}, "ms",
                   [&](const auto& parts, const Row& row) -> std::optional<Point> {
                     if (parts.size() != 3 || parts[0] != model || parts[2] != dtype) return {};
                     return Point{number_before(parts[1], "tenants"), row.mode};
                   }));
    add(figures, std::move(figure));
  }
}

void batching(const Results& results, std::vector<Figure>& figures) {
  struct Plot {
    const char *name, *what, *unit;
    std::vector<const char*> tenants;
  };
  const Plot all[] = {{"5.2", "latency", "ms", {"2", "3", "4", "5"}},
                      {"5.3", "throughput", "requests/s", {"2", "3"}},
                      {"5.4", "throughput", "requests/s", {"4", "5"}}};
  for (const std::string& dtype : dtypes(results))
    for (const Plot& plot : all) {
      Figure figure{
          .name = fmt::format("figure-{}-{}", plot.name, dtype),
          .title = fmt::format("Figure {}: {} of ALBERT-large, {}", plot.name, plot.what, dtype),
          .bench = results.bench};
      for (const std::string tenants : plot.tenants)
        figure.panels.push_back(panel_of(
            results, {.title = tenants + " tenants", .x_label = "requests", .y_label = plot.unit},
            plot.unit, [&](const auto& parts, const Row& row) -> std::optional<Point> {
              if (parts.size() != 4 || number_before(parts[1], "tenants") != tenants ||
                  parts[3] != dtype)
                return {};
              return Point{number_before(parts[2], "requests"), row.mode};
            }));
      add(figures, std::move(figure));
    }
}

void scaling(const Results& results, std::vector<Figure>& figures) {
  struct Plot {
    const char *name, *what, *unit;
  };
  constexpr Plot all[] = {{"scaling-", "Tokens/s", "tokens/s"},
                          {"scaling-latency-", "Latency of a batch", "ms"},
                          {"scaling-memory-", "Memory", "MB"}};
  for (const std::string& dtype : dtypes(results))
    for (const Plot& plot : all) {
      const std::string unit = plot.unit;
      Figure figure{.name = plot.name + dtype,
                    .title = fmt::format("{} against each dimension alone, {}", plot.what, dtype),
                    .bench = results.bench};
      const auto dimension = [](const Row& row) { return words_of(parts_of(row.name)[0]); };
      for (const std::string& what : distinct(results, dimension))
        figure.panels.push_back(
            panel_of(results, {.title = what, .x_label = what, .y_label = unit}, unit,
                     [&](const auto& parts, const Row& row) -> std::optional<Point> {
                       if (parts.size() != 2 || words_of(parts[0]) != what || parts[1] != dtype)
                         return {};
                       return Point{digits_of(parts[0]), row.mode};
                     }));
      add(figures, std::move(figure));
    }
}

void mixed(const Results& results, std::vector<Figure>& figures) {
  for (const std::string& dtype : dtypes(results)) {
    Figure figure{.name = "mixed-" + dtype,
                  .title = "64 requests of mixed lengths, by planner, " + dtype,
                  .bench = results.bench};
    for (const std::string unit : {"tokens/s", "% pad"})
      figure.panels.push_back(
          panel_of(results, {.y_label = unit, .kind = Panel::Kind::kBars}, unit,
                   [&](const auto& parts, const Row& row) -> std::optional<Point> {
                     if (parts.size() != 2 || parts[1] != dtype) return {};
                     return Point{parts[0], row.mode};
                   }));
    add(figures, std::move(figure));
  }
}

// Operators have only Figure 5.5.
void operators(const Results& results, std::vector<Figure>& figures) {
  const auto is_it = [](const Row& row) {
    std::string name = row.name;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name.find("get q/k/v") != std::string::npos;
  };
  Panel panel{
      .title = "4 tenants, 4 requests each, 64 tokens", .y_label = {}, .kind = Panel::Kind::kBars};
  for (const Row& row : results.rows) {
    if (!is_it(row) || (!panel.y_label.empty() && row.unit != panel.y_label)) continue;
    panel.y_label = row.unit;
    put(panel, {row.name, row.mode}, row.value);
  }
  for (Panel::Line& line : panel.lines) line.y.resize(panel.series.size());
  add(figures, {.name = "figure-5.5",
                .title = "Figure 5.5: the operator \"get Q, K, V\"",
                .bench = results.bench,
                .panels = {std::move(panel)}});
}

// Time per datagram: by authentication and size, and by the number of open requests.
void ingest(const Results& results, std::vector<Figure>& figures) {
  Figure figure{.name = "ingest", .title = "Time of a worker per datagram", .bench = results.bench};
  figure.panels.push_back(
      panel_of(results, {.title = "to the group", .y_label = "ns", .kind = Panel::Kind::kBars},
               "ns", [](const auto& parts, const Row& row) -> std::optional<Point> {
                 if (parts.size() != 2 || row.mode != "hand-over") return {};
                 return Point{parts[0], parts[1]};
               }));
  figure.panels.push_back(
      panel_of(results, {.title = "open requests", .x_label = "open requests", .y_label = "ns"},
               "ns", [](const auto& parts, const Row& row) -> std::optional<Point> {
                 if (parts.size() != 3 || row.mode != "hand-over") return {};
                 const std::string num_open = number_before(parts[2], "open");
                 if (num_open.empty()) return {};
                 return Point{num_open, parts[0]};
               }));
  add(figures, std::move(figure));
}

}  // namespace

std::vector<Figure> make_figures(std::span<const Results> all) {
  std::vector<Figure> figures;
  for (const Results& results : all) {
    if (results.bench == "tenants") tenants(results, figures);
    if (results.bench == "batching") batching(results, figures);
    if (results.bench == "few-tokens") few_tokens(results, figures);
    if (results.bench == "scaling") scaling(results, figures);
    if (results.bench == "mixed") mixed(results, figures);
    if (results.bench == "operators") operators(results, figures);
    if (results.bench == "ingest") ingest(results, figures);
    gslice_figures(results, figures);
    for (const TimeLine& line : results.time_lines)
      figures.push_back(time_line_figure(line, results.bench));
  }
  return figures;
}

}  // namespace itif::bench
