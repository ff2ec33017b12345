// The results of a bench: a table for people, one JSON object for programs.
//
//   {"bench": "encoder", "commit": "…", "machine": {…}, "device": "…",
//    "limit_name": "floor", "notes": ["skipped …"], "error": "why it ended early",
//    "rows": [{"case": "1x128", "mode": "bf16", "value": 52.1, "unit": "ms", "limit": 50.2,
//              "ratio": 1.04}],
//    "time_lines": [{"name": "figure-16", "title": "…", "interval_s": 0.5,
//                    "series": [{"name": "vit-base", "share_percent": [30, …], "sent_per_s": […],
//                                "answered_per_s": […], "mean_ms": […],
//                                "batch_requests": […]}]}]}
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "report/row.h"
#include "report/time_line.h"

namespace itif::bench {

class Report {
 public:
  Report(std::string bench, std::string limit_name)
      : bench_(std::move(bench)), limit_name_(std::move(limit_name)) {}

  // Adds a device to the list in the report: "bf16 on AMD EPYC, AVX512-BF16, 2 threads, …; f32 on
  // …".
  void add_device(const std::string& device);
  // Prints the row immediately; the first call prints the heading, too.
  void add(Row row);
  // Adds a measurement over time, for the figures of a report.
  void add(TimeLine line);
  // Adds a line between rows.
  void note(const std::string& text);
  // Marks the bench as failed. Rows measured until then are still written.
  void set_error(std::string message) { error_ = std::move(message); }
  size_t num_rows() const { return rows_.size(); }
  // Writes all results so far to `path`, now and after each row, marked as incomplete. Errors:
  // kPermission, kResourceExhausted.
  Status keep_json(const std::string& path);
  // Marks the JSON file, if any, as complete. Errors: as keep_json().
  Status finish();

 private:
  std::string json() const;
  void keep() const;

  std::string bench_, limit_name_, device_, error_, path_;
  bool is_complete_ = false;
  std::vector<std::string> notes_;
  std::vector<Row> rows_;
  std::vector<TimeLine> time_lines_;
};

}  // namespace itif::bench
