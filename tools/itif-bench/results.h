// What a bench wrote as JSON (report.h), read back to lay out tables and figures of a whole run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "report.h"

namespace itif::bench {

struct Results {
  std::string bench;             // "tenants"
  std::string description = {};  // what it measures; not in the file
  double seconds = 0;            // that it took; not in the file
  std::string error = {};        // empty: it ended well
  std::string commit = {}, machine = {}, device = {}, limit_name = {};
  std::vector<std::string> notes = {};
  std::vector<Row> rows = {};
};

// Errors: kCorrupt, what is not such an object, with the field.
Result<Results> parse_results(std::string_view json);
// Errors: kNotFound and those of parse_results(), with the path.
Result<Results> read_results(const std::string& path);

// "bert-base, 4 tenants, bf16" in three; what stands in parentheses is not divided.
std::vector<std::string> parts_of(std::string_view name);

}  // namespace itif::bench
