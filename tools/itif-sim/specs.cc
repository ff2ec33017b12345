#include "specs.h"

#include <algorithm>

namespace itif::sim {

std::vector<std::string> split_specs(const std::string& text) {
  const char separator = text.find(';') == std::string::npos ? ',' : ';';
  std::vector<std::string> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  // "das:eta=0.7,fair;" is one policy.
  if (separator == ';' && parts.back().empty()) parts.pop_back();
  return parts;
}

}  // namespace itif::sim
