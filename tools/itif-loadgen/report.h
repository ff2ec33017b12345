// The output of a run: live line, final table, JSON document.
#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/histogram.h"
#include "live.h"
#include "options.h"
#include "results.h"

namespace itif::loadgen {

// "  3.0 s  500 sent/s  499 answered/s …": rates between two reports that are `interval_s` apart.
std::string live_line(double elapsed_s, double interval_s, const LiveCounts& before,
                      const LiveCounts& now, const Histogram& interval);

// A row per tenant, a total row, and lines with further figures of the run.
std::string table(const Options& options, const Results& results);

// The configuration (without keys) and every figure.
nlohmann::ordered_json to_json(const Options& options, const Results& results);

// The parts of to_json(): every option but keys, and the figures of one run.
nlohmann::ordered_json configuration_json(const Options& options);
nlohmann::ordered_json results_json(const Options& options, const Results& results);

// Returns a percentile as "812 us" or "25.1 ms"; "-" without values.
std::string time_cell(const Histogram& histogram, double percent);

// True if at least one request was measured and every measured request was answered.
bool all_answered(const Results& results);

// Prints progress lines. On a terminal each overwrites the previous one.
class LivePrinter {
 public:
  explicit LivePrinter(std::FILE* out);
  void print(const std::string& line);
  // Keeps the last line: further output starts on a new line.
  void finish();

 private:
  std::FILE* out_;
  bool terminal_;
  bool open_ = false;
};

}  // namespace itif::loadgen
