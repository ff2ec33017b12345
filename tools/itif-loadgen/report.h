// What the user sees: the live line, the table at the end, the JSON document.
#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/histogram.h"
#include "live.h"
#include "options.h"
#include "results.h"

namespace itif::loadgen {

// "  3.0 s  500 sent/s  499 answered/s …": the change between two reports `interval_s` apart.
std::string live_line(double elapsed_s, double interval_s, const LiveCounts& before,
                      const LiveCounts& now, const Histogram& interval);

// A row a tenant, one for all, and below what else there is to know of the run.
std::string table(const Options& options, const Results& results);

// The configuration (without keys) and every figure.
nlohmann::ordered_json to_json(const Options& options, const Results& results);

// True if at least one request was measured and all were answered.
bool all_answered(const Results& results);

// Prints lines over each other on a terminal, one below the other elsewhere.
class LivePrinter {
 public:
  explicit LivePrinter(std::FILE* out);
  void print(const std::string& line);
  // Ends a line that could still be overwritten.
  void finish();

 private:
  std::FILE* out_;
  bool terminal_;
  bool open_ = false;
};

}  // namespace itif::loadgen
