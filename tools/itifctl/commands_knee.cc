// itifctl group knee: a group's throughput by its share of the device, and the knees.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "commands.h"
#include "table.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

constexpr double kBarWidth = 50;  // characters of the highest throughput

std::string title_of(const json& batch) {
  return fmt::format("{} request{} of {} tokens", count_cell(batch, "requests"),
                     batch.value("requests", 0) == 1 ? "" : "s", count_cell(batch, "tokens"));
}

// One row per share, one column per batch size. '*' marks the knees.
std::string table_of(const json& batches) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"SHARE", kRight}};
  for (const json& batch : batches) columns.push_back({title_of(batch), kRight});
  Table table(columns);
  const json first = batches.empty() ? json::array() : batches[0].value("points", json::array());
  for (size_t i = 0; i < first.size(); ++i) {
    const double percent = first[i].value("percent", 0.0);
    std::vector<std::string> cells = {fmt::format("{:.0f} %", percent)};
    for (const json& batch : batches) {
      const json points = batch.value("points", json::array());
      const bool is_knee = batch.value("knee_percent", 0.0) == percent;
      cells.push_back(i < points.size()
                          ? rate_cell(points[i], "requests_per_s") + (is_knee ? " *" : "  ")
                          : "-");
    }
    table.add(std::move(cells));
  }
  return table.text();
}

// One bar per share, as long as its throughput.
std::string bars_of(const json& batch) {
  const json points = batch.value("points", json::array());
  double most = 0;
  for (const json& point : points) most = std::max(most, point.value("requests_per_s", 0.0));
  std::string bars = title_of(batch) + ", requests/s\n";
  for (const json& point : points) {
    const double percent = point.value("percent", 0.0);
    const double length =
        most > 0 ? std::round(kBarWidth * point.value("requests_per_s", 0.0) / most) : 0;
    bars +=
        fmt::format("{:>5.0f} % |{} {}{}\n", percent, std::string(static_cast<size_t>(length), '#'),
                    rate_cell(point, "requests_per_s"),
                    batch.value("knee_percent", 0.0) == percent ? "  <- knee" : "");
  }
  return bars;
}

void print_knee(const json& document, bool plots) {
  fmt::print("{} on {}\n", text_cell(document, "backbone"), text_cell(document, "device"));
  const json batches = document.value("batches", json::array());
  if (plots) {
    for (const json& batch : batches) fmt::print("\n{}", bars_of(batch));
  } else {
    fmt::print("\nRequests/s by share of the device (*: the knee)\n{}", table_of(batches));
  }
  const double knee = document.value("knee_percent", 0.0);
  const double threshold = document.value("threshold_percent", 0.0);
  if (knee < 100)
    fmt::print(
        "\nKnee of the group: {:.0f} %. A larger share brings at most {:.0f} % more throughput.\n",
        knee, threshold);
  else
    fmt::print(
        "\nKnee of the group: 100 %. Every smaller share loses more than {:.0f} % of the "
        "throughput, or other programs disturbed the measurement.\n",
        threshold);
}

}  // namespace

void add_group_knee(CommandLine& line, CLI::App* groups) {
  struct Options {
    std::string group;
    uint32_t threshold = 0;
    bool measures = false, plots = false;
  };
  auto options = std::make_shared<Options>();
  Context& context = line.context;
  CLI::App* command = groups->add_subcommand(
      "knee", "Show the share of the device past which a group's throughput hardly rises");
  add_group_argument(command, options->group);
  command->add_flag("--measure", options->measures,
                    "measure it now; groups answer more slowly meanwhile");
  command->add_flag("--plot", options->plots, "draw throughput by share, for each batch size");
  CLI::Option* threshold =
      command
          ->add_option("--threshold", options->threshold,
                       "gain of throughput that is worth no larger share (default 10)")
          ->type_name("PERCENT")
          ->check(whole_number(1, 100));
  command->footer(
      "Measure while other groups are idle: their batches change the result. Restarts keep it.\n"
      "On a GPU, `itifctl profile run` measures the knee as well, and with device.shares = "
      "\"tuned\" a\n"
      "group never has more than its knee. On a CPU groups divide the time, and throughput rises "
      "with\n"
      "every share.\n"
      "Examples:\n"
      "  itifctl group knee bert-12x768-12-3072-gelu-1e-12 --measure\n"
      "  itifctl group knee bert-12x768-12-3072-gelu-1e-12 --plot --threshold 5");
  command->callback([&context, options, threshold] {
    context.action = [&context, options, threshold] {
      if (options->measures)
        if (const auto done = context.call_long("group.measure_knee", {{"group", options->group}});
            !done)
          return done.error();
      json args = {{"group", options->group}};
      if (threshold->count() > 0) args["threshold_percent"] = options->threshold;
      const auto answer = context.call("group.knee", args);
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        print_knee(*answer, options->plots);
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace itif::ctl
