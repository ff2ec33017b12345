#include "report/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "report/machine.h"

namespace itif::bench {
namespace {

using nlohmann::json;

std::optional<double> number(const json& row, const char* field) {
  return row.contains(field) ? std::optional(row.at(field).get<double>()) : std::nullopt;
}

Row row_of(const json& row) {
  return {.name = row.at("case"),
          .mode = row.at("mode"),
          .value = row.at("value"),
          .unit = row.at("unit"),
          .spread = row.value("spread", 0.0),
          .limit = number(row, "limit"),
          .limit_spread = row.value("limit_spread", 0.0),
          .ratio = number(row, "ratio"),
          .paper = number(row, "paper"),
          .paper_to = number(row, "paper_to")};
}

// Errors: json::exception.
TimeLine time_line_of(const json& document) {
  TimeLine line = {.name = document.at("name"),
                   .title = document.at("title"),
                   .interval_s = document.at("interval_s")};
  for (const json& entry : document.at("series")) {
    TimeLine::Series series = {.name = entry.at("name")};
    for (const auto& [field, value] : kTimeLineFields) {
      const auto values = entry.at(field).get<std::vector<double>>();
      series.intervals.resize(std::max(series.intervals.size(), values.size()));
      for (size_t i = 0; i < values.size(); ++i) series.intervals[i].*value = values[i];
    }
    line.series.push_back(std::move(series));
  }
  return line;
}

}  // namespace

Result<Results> parse_results(std::string_view text) {
  try {
    const json document = json::parse(text);
    const json& machine = document.at("machine");
    Results results{.bench = document.at("bench"),
                    .error = document.value("error", std::string()),
                    .commit = document.at("commit"),
                    .machine = describe({.cpu = machine.at("cpu"),
                                         .cpus = machine.at("cpus"),
                                         .memory_bytes = machine.at("memory_bytes"),
                                         .kernel = machine.at("kernel")}),
                    .device = document.at("device"),
                    .limit_name = document.value("limit_name", std::string()),
                    .notes = document.value("notes", std::vector<std::string>())};
    for (const json& row : document.at("rows")) results.rows.push_back(row_of(row));
    if (document.contains("time_lines"))
      for (const json& line : document.at("time_lines"))
        results.time_lines.push_back(time_line_of(line));
    return results;
  } catch (const json::exception& error) {
    return fail(Code::kCorrupt, fmt::format("not a result file of itif-bench: {}", error.what()));
  }
}

Result<Results> read_results(const std::string& path) {
  std::ifstream file(path);
  std::error_code error;
  if (!file || !std::filesystem::is_regular_file(path, error))
    return fail(Code::kNotFound, fmt::format("cannot read {}: not a readable file", path));
  auto results = parse_results(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!results)
    return fail(results.error().code, fmt::format("{}: {}", path, results.error().message));
  return results;
}

std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '(' ? 1 : name[i] == ')' ? -1 : 0;
    if (depth == 0 && name.substr(i).starts_with(", ")) {
      parts.emplace_back();
      ++i;
    } else {
      parts.back() += name[i];
    }
  }
  return parts;
}

}  // namespace itif::bench
