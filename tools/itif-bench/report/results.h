// Reads back the JSON of a bench (report.h), for the tables and figures of a whole run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "report/report.h"

namespace itif::bench {

struct Results {
  std::string bench;             // "tenants"
  std::string description = {};  // of the bench; not in the file
  double seconds = 0;            // duration; not in the file
  std::string error = {};        // empty: success
  std::string commit = {}, machine = {}, device = {}, limit_name = {};
  std::vector<std::string> notes = {};
  std::vector<Row> rows = {};
  std::vector<TimeLine> time_lines = {};
};

// Errors: kCorrupt, not a bench's JSON object; the message names the field.
Result<Results> parse_results(std::string_view json);
// Errors: kNotFound and those of parse_results(); the message names the path.
Result<Results> read_results(const std::string& path);

// Splits "bert-base, 4 tenants, bf16" at commas outside parentheses.
std::vector<std::string> parts_of(std::string_view name);

}  // namespace itif::bench
