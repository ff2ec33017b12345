#include "sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "report/gnuplot.h"
#include "report/write_text.h"

namespace itif::loadgen {
namespace {

std::string directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

Error in_our_words(const Error& error) {
  return {error.code, "--plot: " + error.message};
}

}  // namespace

bench::Figure sweep_figure(const std::vector<Trial>& trials, const std::string& name) {
  using bench::Panel;
  bench::Figure figure{
      .name = name, .title = "Latency and loss against the rate", .bench = {}, .panels = {}};
  Panel latency{.title = "latency of answered requests",
                .x_label = "requests/s",
                .y_label = "ms",
                .x_scale = Panel::Scale::kLinear,
                .series = {"p50", "p99"}};
  Panel loss{.title = "lost, refused or late",
             .x_label = "requests/s",
             .y_label = "% of the requests sent",
             .x_scale = Panel::Scale::kLinear,
             .series = {"loss"}};
  for (const Trial& trial : trials) {
    const TargetResults total = trial.results.total();
    const std::string rate = fmt::format("{:.6g}", trial.rate);
    const auto ms = [&](double percent) -> std::optional<double> {
      if (total.latency_ns.count() == 0) return std::nullopt;
      return static_cast<double>(total.latency_ns.percentile(percent)) / 1e6;
    };
    latency.lines.push_back({rate, {ms(50), ms(99)}});
    loss.lines.push_back({rate, {loss_percent(total)}});
  }
  // gnuplot cannot draw a panel without a value.
  if (std::ranges::any_of(latency.lines, [](const auto& line) { return line.y[0].has_value(); }))
    figure.panels.push_back(std::move(latency));
  figure.panels.push_back(std::move(loss));
  return figure;
}

Status plot_sweep(const std::vector<Trial>& trials, const std::string& path) {
  const std::filesystem::path file(path);
  const bench::Figure figure = sweep_figure(trials, file.stem().string());
  const std::string directory = directory_of(file);
  if (Status written = bench::write_figure(figure, directory); !written)
    return std::unexpected(in_our_words(written.error()));
  const Status drawn = bench::draw_figure(figure, directory);
  if (!drawn && drawn.error().code != Code::kNotFound)
    return std::unexpected(in_our_words(drawn.error()));
  if (!drawn)
    return fail(drawn.error().code,
                fmt::format("--plot: {}; after installing gnuplot (Debian: gnuplot-nox), draw it "
                            "with: cd {} && gnuplot {}.gp",
                            drawn.error().message, directory, figure.name));
  return {};
}

Status check_plot_path(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string data = directory_of(file) + "/" + file.stem().string() + ".dat";
  if (Status written = bench::write_text(data, ""); !written)
    return std::unexpected(in_our_words(written.error()));
  return {};
}

}  // namespace itif::loadgen
