#include "base/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace itif {
namespace {

std::optional<unsigned> parse_cpu(std::string_view text) {
  unsigned cpu = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc() || end != text.data() + text.size() || cpu > kMaxCpu) return {};
  return cpu;
}

}  // namespace

std::string format_cpus(std::span<const unsigned> cpus) {
  std::string text;
  for (size_t first = 0, last = 0; first < cpus.size(); first = last + 1) {
    last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (last > first) text += fmt::format("-{}", cpus[last]);
  }
  return text;
}

Result<std::vector<unsigned>> parse_cpus(std::string_view text) {
  std::vector<unsigned> cpus;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const std::string_view part = text.substr(from, comma - from);
    const size_t dash = std::min(part.find('-'), part.size());
    const auto first = parse_cpu(part.substr(0, dash));
    const auto last = dash == part.size() ? first : parse_cpu(part.substr(dash + 1));
    if (!first || !last || *last < *first)
      return fail(Code::kInvalidArgument,
                  fmt::format("'{}' is no CPU from 0 to {} and no range of CPUs, such as 2-5", part,
                              kMaxCpu));
    for (unsigned cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    from = comma + 1;
  }
  std::ranges::sort(cpus);
  const auto repeated = std::ranges::unique(cpus);
  cpus.erase(repeated.begin(), repeated.end());
  return cpus;
}

}  // namespace itif
