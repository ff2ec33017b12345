#include "report/row.h"

#include <fmt/format.h>

#include <cmath>

namespace itif::bench {

std::string stated_text(const Row& row) {
  if (row.paper && row.paper_to)
    return fmt::format("{} to {}", figure_text(*row.paper), figure_text(*row.paper_to));
  if (row.paper_to) return "at most " + figure_text(*row.paper_to);
  return row.paper ? figure_text(*row.paper) : "";
}

std::string figure_text(double value) {
  const double size = std::abs(value);
  if (size > 0 && size < 0.1) return fmt::format("{:.3g}", value);
  std::string text = fmt::format("{:.{}f}", value,
                                 size >= 1000  ? 0
                                 : size >= 100 ? 1
                                 : size >= 1   ? 2
                                               : 3);
  if (size < 1000) return text;
  for (size_t at = text.size(); at > 3 + (value < 0 ? 1 : 0);) text.insert(at -= 3, ",");
  return text;
}

}  // namespace itif::bench
