// Checks of options' values.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/units.h"
#include "commands.h"

namespace itif::ctl {

CLI::Validator duration_text() {
  return CLI::Validator(
      [](std::string& text) {
        const auto duration = parse_duration_ns(text);
        return duration ? std::string() : duration.error().message;
      },
      "", "duration");
}

CLI::Validator percent_text(uint64_t most) {
  return CLI::Validator(
      [most](std::string& text) -> std::string {
        const std::string_view digits =
            std::string_view(text).substr(0, text.ends_with('%') ? text.size() - 1 : text.size());
        const bool is_number =
            !digits.empty() && digits.size() <= 3 && digits[0] != '0' &&
            std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
        const uint64_t percent = is_number ? std::stoul(std::string(digits)) : 0;
        if (percent >= 1 && percent <= most) return "";
        return fmt::format("'{}' must be a whole number of percent from 1% to {}%", text, most);
      },
      "", "percent");
}

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool is_decimal =
            error == std::errc() && stop == end && std::to_string(value) == text;
        if (is_decimal && value >= least && value <= most) return "";
        return fmt::format("'{}' must be a whole number from {} to {}, in decimal digits", text,
                           least, most);
      },
      "", "whole number");
}

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (name == "TEXT" || name == "--pair" || option->get_items_expected_max() == 0) continue;
    option->check(CLI::Validator(
        [](std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); }, "",
        "not empty"));
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

}  // namespace itif::ctl
