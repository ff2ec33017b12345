// What a bench found: a table for people, one JSON object for programs.
//
//   {"bench": "encoder", "commit": "…", "machine": {…}, "device": "…",
//    "limit_name": "floor", "notes": ["skipped …"], "error": "why it ended early",
//    "rows": [{"case": "1x128", "mode": "bf16", "value": 52.1, "unit": "ms", "limit": 50.2, "ratio": 1.04}]}
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::bench {

struct Row {
  std::string name;   // "1x128": what was run
  std::string mode;   // "bf16": how
  double value = 0;   // median
  std::string unit;   // "ms", "GFLOP/s"
  double spread = 0;  // (p90 − p10) / median
  // What the machine allows, measured in the same run, and value against it: ≥ 1 is worse for times,
  // ≤ 1 is worse for rates. limit_name says what it is, for the table.
  std::optional<double> limit = {};
  std::optional<double> ratio = {};
  std::optional<double> paper = {};  // what the thesis measured, on its machine
};

class Report {
 public:
  Report(std::string bench, std::string limit_name)
      : bench_(std::move(bench)), limit_name_(std::move(limit_name)) {}

  // Those measured on, each once: "bf16 on AMD EPYC, AVX512-BF16, 2 threads, …; f32 on …".
  void add_device(const std::string& device);
  // Prints the heading on the first call, then the row: figures appear as they are measured.
  void add(Row row);
  // A line between rows.
  void note(const std::string& text);
  // The bench has failed: what was measured until then is still written.
  void set_error(std::string message) { error_ = std::move(message); }
  size_t num_rows() const { return rows_.size(); }
  // From now on the file holds what was measured so far, and says that it is not all. Errors: kPermission,
  // kResourceExhausted.
  Status keep_json(const std::string& path);
  // The file, if there is one, is complete. Errors: likewise.
  Status finish();

 private:
  std::string json() const;

  std::string bench_, limit_name_, device_, error_, path_;
  bool is_complete_ = false;
  std::vector<std::string> notes_;
  std::vector<Row> rows_;
};

}  // namespace itif::bench
