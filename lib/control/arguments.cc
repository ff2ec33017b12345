#include "control/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace itif::control {
namespace {

using nlohmann::json;

constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxSpecBytes = 255;
constexpr size_t kMaxPathBytes = 4095;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_name_char(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

const char* tenant_name_rule(std::string_view text) {
  // A letter first, so that a name is never taken for an id or an option.
  if (text.empty() || text.size() > kMaxNameBytes || !is_letter(text[0]) ||
      !std::ranges::all_of(text, is_name_char))
    return "a letter followed by letters, digits, '.', '_' or '-', 63 at most in all";
  return nullptr;
}

const char* group_name_rule(std::string_view text) {
  return text.empty() ? nullptr : tenant_name_rule(text);
}

const char* spec_rule(std::string_view text) {
  if (text.empty() || text.size() > kMaxSpecBytes ||
      !std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; }))
    return "a name, perhaps with ':' and settings, as in \"das:eta=0.4,fair\"";
  return nullptr;
}

const char* absolute_path_rule(std::string_view text) {
  if (!text.starts_with('/') || text.size() > kMaxPathBytes || text.find('\0') != text.npos)
    return "an absolute path on the appliance";
  return nullptr;
}

const char* base_rule(std::string_view text) {
  if (absolute_path_rule(text) != nullptr && tenant_name_rule(text) != nullptr)
    return "an absolute path on the appliance, or a tenant's name";
  return nullptr;
}

const json* Arguments::find(const char* name) {
  known_.push_back(name);
  const auto found = args_.find(name);
  return found == args_.end() ? nullptr : &*found;
}

void Arguments::wrong(const char* name, std::string_view must) {
  if (!error_)
    error_ = Error{Code::kInvalidArgument, fmt::format("{}: '{}' must be {}", op_, name, must)};
}

std::string Arguments::text(const char* name, TextRule rule) {
  auto value = optional_text(name, rule);
  if (!value && !error_)
    error_ = Error{Code::kInvalidArgument, fmt::format("{}: '{}' is missing", op_, name)};
  return value ? std::move(*value) : std::string();
}

std::optional<std::string> Arguments::optional_text(const char* name, TextRule rule) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    wrong(name, fmt::format("a string, not {}", value->type_name()));
    return std::nullopt;
  }
  const std::string& text = value->get_ref<const std::string&>();
  if (const char* must = rule(text)) {
    wrong(name, must);
    return std::nullopt;
  }
  return text;
}

std::optional<uint64_t> Arguments::optional_number(const char* name, uint64_t min, uint64_t max) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<uint64_t>() < min ||
      value->get<uint64_t>() > max) {
    wrong(name, fmt::format("an integer from {} to {}", min, max));
    return std::nullopt;
  }
  return value->get<uint64_t>();
}

bool Arguments::flag(const char* name) {
  const json* value = find(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    wrong(name, "true or false");
    return false;
  }
  return value->get<bool>();
}

std::optional<size_t> Arguments::optional_choice(const char* name,
                                                 std::span<const char* const> choices) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    const auto at = std::ranges::find(choices, text);
    if (at != choices.end()) return static_cast<size_t>(at - choices.begin());
  }
  wrong(name, fmt::format("one of {}", fmt::join(choices, ", ")));
  return std::nullopt;
}

Status Arguments::finish() {
  // Report an unknown field first: if a name is misspelt, "missing" would hide the cause.
  for (const auto& [name, value] : args_.items()) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    return fail(Code::kInvalidArgument,
                fmt::format("{}: '{}' is unknown: {}", op_, name.substr(0, 64),
                            known_.empty() ? std::string("it takes no arguments")
                                           : fmt::format("it takes {}", fmt::join(known_, ", "))));
  }
  if (error_) return std::unexpected(*error_);
  return {};
}

}  // namespace itif::control
