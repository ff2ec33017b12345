#include "sched/policy_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "sched/policy_names.h"

namespace itif::sched {
namespace {

Status read_eta(std::string_view value, double& eta) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), eta);
  if (error == std::errc() && end == value.data() + value.size() && eta > 0 && eta < 1) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("eta is '{}': use a number between 0 and 1, both excluded", value));
}

Status read_setting(std::string_view text, PolicySpec& spec) {
  const bool is_das = spec.name == "das" || spec.name == "slotted_das";
  const std::string_view key = text.substr(0, text.find('='));
  const bool has_value = key.size() < text.size();
  if (is_das && key == "eta" && has_value) return read_eta(text.substr(key.size() + 1), spec.eta);
  if (is_das && text == "weighted") {
    spec.weighted = true;
    return {};
  }
  if (is_das && text == "fair") {
    spec.fair = true;
    return {};
  }
  return fail(Code::kInvalidArgument,
              fmt::format("'{}' has no setting '{}'{}", spec.name, text,
                          is_das ? ": use eta=NUMBER, weighted or fair" : ""));
}

}  // namespace

Result<PolicySpec> parse_policy_spec(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto* known = std::ranges::find(kPolicyNames, name);
  if (known == kPolicyNames.end())
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not one of: {}", name, fmt::join(kPolicyNames, ", ")));
  PolicySpec spec{.name = *known};
  if (name.size() == text.size()) return spec;
  std::string_view rest = text.substr(name.size() + 1);
  std::vector<std::string_view> keys;
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string_view setting = rest.substr(0, comma);
    ITIF_TRY(read_setting(setting, spec));
    keys.push_back(setting.substr(0, setting.find('=')));
    if (std::ranges::count(keys, keys.back()) > 1)
      return fail(Code::kInvalidArgument,
                  fmt::format("'{}': '{}' is set twice", name, keys.back()));
    if (more) rest.remove_prefix(comma + 1);
  }
  return spec;
}

}  // namespace itif::sched
