#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/timing.h"

namespace itif::bench {
namespace {

constexpr const char* kSpeedUp = "times";

template <class T>
void add_once(std::vector<T>& all, const T& one) {
  if (std::ranges::find(all, one) == all.end()) all.push_back(one);
}

// Escapes the cell separator.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\|");
  return text;
}

std::string line(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& c : cells) text += fmt::format(" {} |", cell(c));
  return text + "\n";
}

// Left-aligns names and right-aligns figures.
std::string heading(const std::vector<std::string>& cells, size_t num_names) {
  std::string text = line(cells) + "|";
  for (size_t i = 0; i < cells.size(); ++i) text += i < num_names ? "---|" : "---:|";
  return text + "\n";
}

std::string paper_text(const Row& row) {
  const std::string stated = stated_text(row);
  return stated.empty() ? "" : fmt::format(" [{}]", stated);
}

// Marks a figure that other load on the machine has disturbed.
std::string mark_of(double spread) {
  return spread > kMaxSpread ? " ~" : "";
}

struct Table {
  std::string unit;
  std::vector<const Row*> rows;
  std::vector<std::string> cases, modes;
  std::map<std::pair<std::string, std::string>, const Row*> by_case_and_mode;

  void add(const Row& row) {
    rows.push_back(&row);
    add_once(cases, row.name);
    add_once(modes, row.mode);
    by_case_and_mode.try_emplace({row.name, row.mode}, &row);
  }
  const Row* find(const std::string& name, const std::string& mode) const {
    const auto found = by_case_and_mode.find({name, mode});
    return found == by_case_and_mode.end() ? nullptr : found->second;
  }
  // The first row with the limit that the modes of a case share; nullptr: none has a limit.
  const Row* row_with_limit(const std::string& name) const {
    for (const std::string& mode : modes)
      if (const Row* row = find(name, mode); row && row->limit) return row;
    return nullptr;
  }
  bool modes_stand_beside_each_other() const {
    if (by_case_and_mode.size() != rows.size()) return false;
    return std::ranges::all_of(rows, [&](const Row* row) {
      return !row->limit || row->limit == row_with_limit(row->name)->limit;
    });
  }
};

// Number of columns for case names: their parts if all names have the same number, else 1.
size_t num_name_columns(const std::vector<std::string>& cases) {
  const size_t parts = parts_of(cases.front()).size();
  for (const std::string& name : cases)
    if (parts_of(name).size() != parts) return 1;
  return parts;
}
std::vector<std::string> name_cells(const std::string& name, size_t columns) {
  return columns == 1 ? std::vector{name} : parts_of(name);
}

std::string wide(const Table& table, const Table* speed_ups, const std::string& limit_name) {
  const size_t names = num_name_columns(table.cases);
  const bool limits = std::ranges::any_of(table.rows, [](const Row* r) { return !!r->limit; });
  std::vector<std::string> cells(names);
  cells[0] = "case";
  cells.insert(cells.end(), table.modes.begin(), table.modes.end());
  if (speed_ups) cells.insert(cells.end(), speed_ups->modes.begin(), speed_ups->modes.end());
  if (limits) cells.push_back(limit_name.empty() ? "limit" : limit_name);
  std::string text = heading(cells, names);
  for (const std::string& name : table.cases) {
    cells = name_cells(name, names);
    for (const std::string& mode : table.modes) {
      const Row* row = table.find(name, mode);
      cells.push_back(!row ? ""
                           : figure_text(row->value) + mark_of(row->spread) + paper_text(*row) +
                                 (row->ratio ? fmt::format(" ({:.2f})", *row->ratio) : ""));
    }
    if (speed_ups)
      for (const std::string& mode : speed_ups->modes) {
        const Row* row = speed_ups->find(name, mode);
        cells.push_back(
            row ? fmt::format("{:.2f} ×{}{}", row->value, mark_of(row->spread), paper_text(*row))
                : "");
      }
    if (limits) {
      const Row* row = table.row_with_limit(name);
      cells.push_back(row ? figure_text(*row->limit) + mark_of(row->limit_spread) : "");
    }
    text += line(cells);
  }
  return text;
}

std::string tall(const Table& table, const std::string& limit_name) {
  std::string text = heading({"case", "mode", table.unit, "spread",
                              limit_name.empty() ? "limit" : limit_name, "ratio", "thesis"},
                             2);
  for (const Row* row : table.rows)
    text += line({row->name, row->mode, figure_text(row->value) + mark_of(row->spread),
                  row->spread > 0 ? fmt::format("{:.1f} %", 100 * row->spread) : "",
                  row->limit ? figure_text(*row->limit) + mark_of(row->limit_spread) : "",
                  row->ratio ? fmt::format("{:.2f}", *row->ratio) : "", stated_text(*row)});
  return text;
}

double largest_spread(const Table& table) {
  double most = 0;
  for (const Row* row : table.rows) most = std::max({most, row->spread, row->limit_spread});
  return most;
}

}  // namespace

std::string markdown_tables(const Results& results) {
  std::vector<Table> tables;
  Table speed_ups{.unit = kSpeedUp, .rows = {}, .cases = {}, .modes = {}, .by_case_and_mode = {}};
  for (const Row& row : results.rows) {
    if (row.unit == kSpeedUp) {
      speed_ups.add(row);
      continue;
    }
    auto table = std::ranges::find(tables, row.unit, &Table::unit);
    if (table == tables.end()) {
      tables.push_back(
          {.unit = row.unit, .rows = {}, .cases = {}, .modes = {}, .by_case_and_mode = {}});
      table = tables.end() - 1;
    }
    table->add(row);
  }
  const bool joined =
      !speed_ups.rows.empty() && !tables.empty() &&
      tables.front().modes_stand_beside_each_other() &&
      std::ranges::all_of(speed_ups.cases, [&](const std::string& name) {
        return std::ranges::find(tables.front().cases, name) != tables.front().cases.end();
      });
  if (!joined && !speed_ups.rows.empty()) tables.push_back(speed_ups);
  std::string text;
  for (size_t i = 0; i < tables.size(); ++i) {
    const Table& table = tables[i];
    const bool beside = table.modes_stand_beside_each_other();
    text += fmt::format("{}{}", i > 0 ? "\n" : "", table.unit);
    if (beside && largest_spread(table) > 0)
      text += fmt::format(", spread at most {:.1f} %", 100 * largest_spread(table));
    if (largest_spread(table) > kMaxSpread)
      text += fmt::format(" (~: above {:.0f} %)", 100 * kMaxSpread);
    text += ":\n\n";
    text += beside ? wide(table, joined && i == 0 ? &speed_ups : nullptr, results.limit_name)
                   : tall(table, results.limit_name);
  }
  return text;
}

}  // namespace itif::bench
