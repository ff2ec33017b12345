// A figure of a bench's results, and its text.
#pragma once

#include <optional>
#include <string>

namespace itif::bench {

struct Row {
  std::string name;   // the case: "1x128"
  std::string mode;   // how it ran: "bf16"
  double value = 0;   // median
  std::string unit;   // "ms", "GFLOP/s"
  double spread = 0;  // (p90 − p10) / median
  // The machine's limit, measured in the same run; Report's limit_name names it.
  std::optional<double> limit = {};
  double limit_spread = 0;  // as spread
  // value / limit: 1 is best; times are above 1, rates below.
  std::optional<double> ratio = {};
  // The figure of the thesis or the paper, on its machine, or the lower end of its range.
  std::optional<double> paper = {};
  // The upper end of that range; without `paper`: an upper bound.
  std::optional<double> paper_to = {};
};

// "13.51", "2,298", "0.0071": at least three significant digits of what is not 0.
std::string figure_text(double value);
// The paper's figure of a row: "1.39", "6.00 to 13.00", "at most 25.00"; empty: it has none.
std::string stated_text(const Row& row);

}  // namespace itif::bench
