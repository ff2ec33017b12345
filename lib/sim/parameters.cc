#include "sim/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

constexpr uint32_t kMaxTenants = 4096;

template <class Number>
bool is_whole_text(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Returns the value as libconfig writes it: numbers and truth values as they are, all else as a
// string.
std::string setting_of(const std::string& value) {
  int64_t whole = 0;
  double number = 0;
  if (is_whole_text(value, whole)) return fmt::format("{}L", whole);
  // libconfig takes a number with a point or an exponent as a fraction, and neither inf nor nan.
  if (is_whole_text(value, number) && std::isfinite(number)) return fmt::format("{:e}", number);
  if (value == "true" || value == "false") return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// The sections of a file that each group has.
constexpr std::string_view kGroupSections[] = {"model",  "batching",  "arrivals", "lengths",
                                               "output", "deadlines", "slice"};

Status set_num_tenants(Scenario& scenario, const std::string& value) {
  uint32_t count = 0;
  if (!is_whole_text(value, count) || count < 1 || count > kMaxTenants)
    return fail(
        Code::kInvalidArgument,
        fmt::format("num_tenants: '{}' is not a whole number from 1 to {}", value, kMaxTenants));
  const TenantChoice first = scenario.tenants.front();
  scenario.tenants.assign(count, first);
  for (uint32_t i = 0; i < count; ++i) scenario.tenants[i].name = fmt::format("tenant{}", i + 1);
  return check(scenario);
}

}  // namespace

Status set_parameter(Scenario& scenario, const std::string& key, const std::string& value) {
  if (scenario.num_groups() > 1 &&
      (key == "num_tenants" ||
       std::ranges::count(kGroupSections, std::string_view(key).substr(0, key.find('.'))) > 0))
    return fail(Code::kInvalidArgument,
                fmt::format("{}: a scenario with several groups has no such single value", key));
  if (key == "num_tenants") return set_num_tenants(scenario, value);
  const auto is_key = [](std::string_view name) {
    return !name.empty() &&
           std::ranges::all_of(name, [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
  };
  const size_t dot = key.find('.');
  const std::string name = dot == std::string::npos ? key : key.substr(dot + 1);
  if (!is_key(name) || (dot != std::string::npos && !is_key(key.substr(0, dot))))
    return fail(Code::kInvalidArgument,
                fmt::format("{}: is no key of a scenario file, as arrivals.rate is, nor "
                            "num_tenants",
                            key));
  const std::string setting = fmt::format("{} = {};", name, setting_of(value));
  return change_scenario(dot == std::string::npos
                             ? setting
                             : fmt::format("{} = {{ {} }};", key.substr(0, dot), setting),
                         scenario);
}

}  // namespace itif::sim
