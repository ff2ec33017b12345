#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

namespace itif {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr Unit kDurations[] = {{"ns", 1},  {"us", 1e3}, {"ms", 1e6},
                               {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
constexpr Unit kSizes[] = {
    {"", 1},     {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0},
    {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};

Result<uint64_t> parse(std::string_view text, std::span<const Unit> units, const char* kind,
                       const char* expected) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  // from_chars also takes "-1", "inf" and "nan".
  if (error == std::errc() && text[0] >= '0' && text[0] <= '9') {
    std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    for (const Unit& unit : units) {
      if (unit.name != rest) continue;
      const double value = number * unit.scale;
      if (value < 9.2e18) return static_cast<uint64_t>(std::llround(value));
    }
  }
  return fail(Code::kInvalidArgument,
              fmt::format("'{}' is not a {}: write a number and a unit, {}", text, kind, expected));
}

std::string format(double value, std::span<const Unit> units) {
  const Unit* best = &units[0];
  for (const Unit& unit : units)
    if (value >= unit.scale && unit.scale >= best->scale) best = &unit;
  const double scaled = value / best->scale;
  const int digits = best->scale == 1 || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", scaled, digits, best->name);
}

}  // namespace

Result<uint64_t> parse_duration_ns(std::string_view text) {
  return parse(text, kDurations, "duration", "as in 250us, 25ms or 1.5s");
}

std::string format_duration_ns(uint64_t ns) {
  return format(static_cast<double>(ns), std::span(kDurations).first(4));
}

Result<uint64_t> parse_bytes(std::string_view text) {
  return parse(text, kSizes, "size", "as in 65536, 64KiB or 2GiB");
}

std::string format_bytes(uint64_t bytes) {
  return format(static_cast<double>(bytes), std::span(kSizes).subspan(1, 4));
}

}  // namespace itif
