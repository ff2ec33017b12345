#include "report/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commit.h"
#include "report/machine.h"
#include "report/write_text.h"

namespace itif::bench {
namespace {

nlohmann::ordered_json json_of(const TimeLine& line) {
  nlohmann::ordered_json all = {{"name", line.name},
                                {"title", line.title},
                                {"interval_s", line.interval_s},
                                {"series", nlohmann::ordered_json::array()}};
  for (const TimeLine::Series& series : line.series) {
    nlohmann::ordered_json entry = {{"name", series.name}};
    for (const auto& [field, value] : kTimeLineFields) {
      nlohmann::ordered_json& values = entry[field] = nlohmann::ordered_json::array();
      for (const TimeLine::Interval& interval : series.intervals) values.push_back(interval.*value);
    }
    all["series"].push_back(std::move(entry));
  }
  return all;
}

}  // namespace

void Report::add_device(const std::string& device) {
  device_ += (device_.empty() ? "" : "; ") + device;
}

void Report::add(Row row) {
  if (rows_.empty())
    fmt::print("{:<34} {:>12} {:>12} {:<8} {:>7} {:>12} {:>7}\n", "case", "mode", "median", "unit",
               "spread", limit_name_, limit_name_.empty() ? "" : "ratio");
  fmt::print("{:<34} {:>12} {:>12} {:<8} {:>6.1f}%", row.name, row.mode, figure_text(row.value),
             row.unit, 100 * row.spread);
  fmt::print(" {:>12}", row.limit ? fmt::format("{:.3f}", *row.limit) : "");
  fmt::print(" {:>7}", row.ratio ? fmt::format("{:.2f}", *row.ratio) : "");
  if (row.paper || row.paper_to) fmt::print("  paper {}", stated_text(row));
  fmt::print("\n");
  std::fflush(stdout);
  rows_.push_back(std::move(row));
  keep();
}

void Report::add(TimeLine line) {
  fmt::print("{}: time line of {} series\n", line.title, line.series.size());
  std::fflush(stdout);
  time_lines_.push_back(std::move(line));
  keep();
}

void Report::keep() const {
  if (!path_.empty()) (void)write_text(path_, json() + "\n");  // finish() reports an error
}

void Report::note(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
  notes_.push_back(text);
}

std::string Report::json() const {
  const Machine machine = this_machine();
  nlohmann::ordered_json document = {
      {"bench", bench_},
      {"commit", kCommit},
      {"machine",
       {{"cpu", machine.cpu},
        {"cpus", machine.cpus},
        {"memory_bytes", machine.memory_bytes},
        {"kernel", machine.kernel}}},
      {"device", device_},
      {"limit_name", limit_name_},
      {"notes", notes_},
      {"rows", nlohmann::ordered_json::array()},
  };
  if (!error_.empty())
    document["error"] = error_;
  else if (!is_complete_)
    document["error"] = "incomplete: the bench ended before its last row";
  for (const Row& row : rows_) {
    nlohmann::ordered_json entry = {{"case", row.name},
                                    {"mode", row.mode},
                                    {"value", row.value},
                                    {"unit", row.unit},
                                    {"spread", row.spread}};
    if (row.limit) entry["limit"] = *row.limit;
    if (row.limit_spread > 0) entry["limit_spread"] = row.limit_spread;
    if (row.ratio) entry["ratio"] = *row.ratio;
    if (row.paper) entry["paper"] = *row.paper;
    if (row.paper_to) entry["paper_to"] = *row.paper_to;
    document["rows"].push_back(std::move(entry));
  }
  for (const TimeLine& line : time_lines_) document["time_lines"].push_back(json_of(line));
  return document.dump(2);
}

Status Report::keep_json(const std::string& path) {
  path_ = path;
  return write_text(path_, json() + "\n");
}

Status Report::finish() {
  is_complete_ = true;
  return path_.empty() ? Status() : write_text(path_, json() + "\n");
}

}  // namespace itif::bench
