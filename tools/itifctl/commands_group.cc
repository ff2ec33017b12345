// itifctl group list, planner; profile show, run: the running groups, the planners of their last
// batches, and the costs that planners use.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "base/cpu_list.h"
#include "commands.h"
#include "table.h"

namespace itif::ctl {

void add_group_argument(CLI::App* command, std::string& group) {
  command->add_option("GROUP", group, "name of the group, from `itifctl group list`")->required();
}

namespace {

using nlohmann::json;

// Share of padding in the computed rows.
std::string padding_cell(const json& group) {
  const double rows = group.value("rows", 0.0);
  if (rows <= 0) return "-";
  return fmt::format("{:.0f} %", 100 * (1 - group.value("tokens", 0.0) / rows));
}

std::string percent_cell(const json& group, const char* key) {
  return fmt::format("{:.0f} %", group.value(key, 0.0));
}

// The CPUs that the group has for itself.
std::string cpus_cell(const json& group) {
  const json cpus = group.value("cpus", json());
  return cpus.is_array() ? format_cpus(cpus.get<std::vector<unsigned>>()) : "shared";
}

void show_groups(const json& document) {
  using enum Table::Align;
  Table table({{"GROUP"},
               {"BACKBONE"},
               {"DTYPE"},
               {"TENANTS", kRight},
               {"SLOTS", kRight},
               {"WEIGHTS", kRight},
               {"WAITING", kRight},
               {"EXECUTING", kRight},
               {"SCHEDULER"},
               {"PLANNER"},
               {"SHARE", kRight},
               {"WEIGHT", kRight},
               {"CPUS"},
               {"GUE", kRight},
               {"PADDING", kRight}});
  for (const json& g : document.value("groups", json::array())) {
    const json tenants = g.value("tenants", json::array());
    table.add({text_cell(g, "name"), text_cell(g, "backbone"), text_cell(g, "dtype"),
               with_thousands(tenants.size()),
               text_cell(g, "slots_used") + "/" + text_cell(g, "slots"),
               bytes_cell(g, "weight_bytes"), count_cell(g, "requests_waiting"),
               count_cell(g, "requests_executing"), text_cell(g, "scheduler"),
               text_cell(g, "planner"), percent_cell(g, "share_percent"), text_cell(g, "weight"),
               cpus_cell(g), gue_cell(g, "gue"), padding_cell(g)});
  }
  fmt::print("{}", table.text());
}

std::string ms_cell(const json& ns) {
  return ns.is_number() ? fmt::format("{:.3f}", ns.get<double>() * 1e-6) : "-";
}

// A table of costs: one row per length, one column per number of requests.
std::string cost_table(const json& lengths, const json& numbers, const json& costs,
                       const std::function<const json&(size_t)>& row_of) {
  std::vector<Table::Column> columns = {{"LENGTH", Table::Align::kRight}};
  for (const json& number : numbers)
    columns.push_back({fmt::format("×{}", number.dump()), Table::Align::kRight});
  Table table(columns);
  for (size_t l = 0; l < lengths.size() && l < costs.size(); ++l) {
    std::vector<std::string> cells = {lengths[l].dump()};
    const json& row = row_of(l);
    for (size_t i = 0; i < numbers.size(); ++i)
      cells.push_back(i < row.size() ? ms_cell(row[i]) : "-");
    table.add(std::move(cells));
  }
  return table.text();
}

// A way to run a GEMM over several ranges: the name of its costs, and what it is called here.
struct RangeMode {
  const char* costs;
  const char* title;
};
constexpr RangeMode kRangeModes[] = {{"in_turn_ns", "sequential"},
                                     {"at_once_ns", "concurrent"},
                                     {"streams_ns", "on streams"},
                                     {"pointers_ns", "by pointers"}};
constexpr RangeMode kUnevenRangeModes[] = {{"uneven_in_turn_ns", "sequential"},
                                           {"uneven_at_once_ns", "grouped"},
                                           {"uneven_streams_ns", "on streams"}};

// One row per number of ranges, one column per rows of a range. A cell holds the costs of all modes
// that were measured; '*' marks the lowest. Empty: none was.
std::string shared_table(const json& counts, const json& rows, const json& shape,
                         std::span<const RangeMode> modes) {
  std::vector<RangeMode> measured;
  for (const RangeMode& mode : modes)
    if (shape.contains(mode.costs)) measured.push_back(mode);
  if (measured.empty()) return {};
  std::vector<Table::Column> columns = {{"RANGES", Table::Align::kRight}};
  for (const json& number : rows)
    columns.push_back({number.dump() + " ROWS", Table::Align::kRight});
  Table table(columns);
  for (size_t c = 0; c < counts.size(); ++c) {
    std::vector<std::string> cells = {counts[c].dump()};
    for (size_t r = 0; r < rows.size(); ++r) {
      std::vector<json> costs;
      double lowest = std::numeric_limits<double>::infinity();
      for (const RangeMode& mode : measured) {
        const json::json_pointer at(fmt::format("/{}/{}/{}", mode.costs, c, r));
        costs.push_back(shape.contains(at) ? shape.at(at) : json());
        if (costs.back().is_number()) lowest = std::min(lowest, costs.back().get<double>());
      }
      std::string cell;
      bool has_star = false;
      for (const json& cost : costs) {
        const bool is_lowest = !has_star && cost.is_number() && cost.get<double>() == lowest;
        has_star |= is_lowest;
        cell += (cell.empty() ? "" : " / ") + ms_cell(cost) + (is_lowest ? "*" : "");
      }
      cells.push_back(std::move(cell));
    }
    table.add(std::move(cells));
  }
  std::string title;
  for (const RangeMode& mode : measured)
    title += (title.empty() ? "" : " / ") + std::string(mode.title);
  return fmt::format("ms, {} (*: the fastest)\n{}", title, table.text());
}

void print_profile(const json& p) {
  const json none = json::array();
  const auto array = [&](const char* name) -> const json& {
    return p.contains(name) && p[name].is_array() ? p[name] : none;
  };
  fmt::print("{} on {}\n\n", text_cell(p, "backbone"), text_cell(p, "device"));
  if (array("lengths").empty())
    fmt::print("It generates: its steps use no planner.\n");
  else
    fmt::print("A: GEMMs of a pass over one mini-batch, ms, by length and number of requests\n{}",
               cost_table(array("lengths"), array("batches"), array("gemm_ns"),
                          [&](size_t l) -> const json& { return array("gemm_ns")[l]; }));
  for (size_t c = 0; c < array("counts").size(); ++c)
    fmt::print(
        "\nB: over {} mini-batches of different tenants, ms, by length and requests per batch\n{}",
        array("counts")[c].dump(),
        cost_table(array("lengths"), array("sizes"), array("batched_gemm_ns"),
                   [&](size_t l) -> const json& {
                     const json& by_count = array("batched_gemm_ns")[l];
                     return c < by_count.size() ? by_count[c] : none;
                   }));
  for (const json& shape : array("shared_gemms"))
    for (const auto& [modes, rows_are] :
         {std::pair{std::span<const RangeMode>(kRangeModes), "equal"},
          std::pair{std::span<const RangeMode>(kUnevenRangeModes), "unequal"}})
      if (const std::string table =
              shared_table(array("range_counts"), array("range_rows"), shape, modes);
          !table.empty())
        fmt::print("\nA GEMM of {} x {} over ranges of different tenants with {} rows, {}",
                   text_cell(shape, "n"), text_cell(shape, "k"), rows_are, table);
  if (p.contains("launch_ns") && p["launch_ns"].is_number() && p["launch_ns"] > 0)
    fmt::print("\nA pass whose kernels are launched one by one takes at least {} ms.\n",
               ms_cell(p["launch_ns"]));
}

// One row per batch. '*' marks the plan that ran.
void print_planner(const json& document) {
  using enum Table::Align;
  const json batches = document.value("batches", json::array());
  fmt::print("group {} uses planner {}\n", text_cell(document, "group"),
             text_cell(document, "planner"));
  if (batches.empty()) {
    fmt::print("It has run no batch yet.\n");
    return;
  }
  std::vector<Table::Column> columns = {{"REQUESTS", kRight},
                                        {"TOKENS", kRight},
                                        {"ROWS", kRight},
                                        {"PLANNER"},
                                        {"TOOK, ms", kRight}};
  std::vector<std::string> offering;  // planners, in the order of their offers
  for (const json& batch : batches)
    for (const json& offer : batch.value("offers", json::array())) {
      const std::string name = offer.value("planner", "");
      if (std::ranges::find(offering, name) == offering.end()) offering.push_back(name);
    }
  for (const std::string& name : offering) columns.push_back({name, kRight});
  Table table(columns);
  for (const json& batch : batches) {
    std::vector<std::string> cells = {count_cell(batch, "requests"), count_cell(batch, "tokens"),
                                      count_cell(batch, "rows"), text_cell(batch, "planner"),
                                      ms_cell(batch.value("execute_ns", json()))};
    for (const std::string& name : offering) {
      std::string cell = "-";
      for (const json& offer : batch.value("offers", json::array()))
        if (offer.value("planner", "") == name)
          cell = ms_cell(offer.value("predicted_ns", json())) +
                 (name == batch.value("planner", "") ? "*" : "");
      cells.push_back(std::move(cell));
    }
    table.add(std::move(cells));
  }
  fmt::print("\nIts last batches{}\n{}",
             offering.empty() ? "" : ", and what each planner's plan was expected to take, ms",
             table.text());
}

void add_group_planner(CommandLine& line, CLI::App* groups) {
  auto group = std::make_shared<std::string>();
  Context& context = line.context;
  CLI::App* command = groups->add_subcommand(
      "planner", "Show which planner laid out a group's last batches, and why");
  add_group_argument(command, *group);
  command->footer(
      "Under planner auto, each batch has the predicted times that were compared.\n"
      "Example:\n  itifctl group planner bert-12x768-12-3072-gelu-1e-12");
  command->callback([&context, group] {
    context.action = [&context, group] {
      const auto answer = context.call("group.planner", {{"group", *group}});
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        print_planner(*answer);
      return static_cast<int>(kDone);
    };
  });
}

void add_profile(CommandLine& line, CLI::App* profile, const char* name, const char* text,
                 const char* op, bool is_long) {
  auto group = std::make_shared<std::string>();
  Context& context = line.context;
  CLI::App* command = profile->add_subcommand(name, text);
  add_group_argument(command, *group);
  command->footer(
      fmt::format("Example:\n  itifctl profile {} bert-12x768-12-3072-gelu-1e-12", name));
  command->callback([&context, group, op, is_long] {
    context.action = [&context, group, op, is_long] {
      const json args = {{"group", *group}};
      const auto answer = is_long ? context.call_long(op, args) : context.call(op, args);
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        print_profile(*answer);
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace

void add_group_commands(CommandLine& line) {
  CLI::App* group =
      line.app.add_subcommand("group", "List and change groups (tenants with the same backbone)");
  group->require_subcommand(1);
  CLI::App* list = group->add_subcommand("list", "List all groups");
  list->footer("Example:\n  itifctl group list");
  Context& context = line.context;
  list->callback([&context] {
    context.action = [&context] {
      const auto answer = context.call("group.list");
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        show_groups(*answer);
      return static_cast<int>(kDone);
    };
  });
  add_group_update(line, group);
  add_group_planner(line, group);
  add_group_knee(line, group);
  CLI::App* profile =
      line.app.add_subcommand("profile", "Costs of the GEMMs of a group's backbone on this device");
  profile->require_subcommand(1);
  add_profile(line, profile, "show", "Show the costs that planners and the GEMM scheduler use",
              "profile.show", false);
  add_profile(line, profile, "run", "Measure the costs again while the group is serving",
              "profile.run", true);
}

}  // namespace itif::ctl
