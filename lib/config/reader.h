// Reads the keys of libconfig settings that the schema visits. Reports a wrong type, a value out of
// range or an unknown key as one error with file, line and key.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <libconfig.h++>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace itif::config {

using libconfig::Setting;

// "an integer", "a group { }", …
const char* type_text(const Setting& setting);

// Keeps the first error, in the order of the schema.
struct Report {
  std::string path;  // empty: settings of no file; errors name no line then
  std::optional<Error> error;

  void add(const Setting& setting, const std::string& key, const std::string& what) {
    if (error) return;
    if (path.empty()) {
      error = Error{Code::kInvalidArgument, fmt::format("{}: {}", key, what)};
      return;
    }
    const char* file = setting.getSourceFile();  // another file than `path` after an @include
    error = Error{Code::kInvalidArgument, fmt::format("{}:{}: {}: {}", file ? file : path.c_str(),
                                                      setting.getSourceLine(), key, what)};
  }
};

// A schema visitor: reads each key that is present in one group, then refuses unknown keys.
class Reader {
 public:
  Reader(Report& report, const Setting& group, std::string section)
      : report_(report), group_(group), section_(std::move(section)) {}

  void boolean(const char* key, bool& field) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (setting->getType() != Setting::TypeBoolean)
      return wrong_type(*setting, key, "true or false");
    field = *setting;
  }

  template <class Integer>
  void integer(const char* key, Integer& field, uint64_t min, uint64_t max) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (!is_integer(*setting)) return wrong_type(*setting, key, "an integer");
    const long long value = integer_of(*setting);
    if (value < 0 || static_cast<uint64_t>(value) < min || static_cast<uint64_t>(value) > max)
      return report(*setting, key,
                    fmt::format("{} is out of range: allowed are {} to {}", value, min, max));
    field = static_cast<Integer>(value);
  }

  // Takes integers as well.
  void number(const char* key, double& field, double min, double max) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (setting->getType() != Setting::TypeFloat && !is_integer(*setting))
      return wrong_type(*setting, key, "a number");
    const double value = is_integer(*setting) ? static_cast<double>(integer_of(*setting))
                                              : static_cast<double>(*setting);
    if (!(value >= min && value <= max))
      return report(*setting, key,
                    fmt::format("{} is out of range: allowed are {} to {}", value, min, max));
    field = value;
  }

  void duration(const char* key, uint64_t& field, uint64_t min_ns, uint64_t max_ns) {
    quantity(key, field, min_ns, max_ns, "a duration string, as in \"25ms\"", parse_duration_ns,
             format_duration_ns);
  }

  template <class Integer>
  void size(const char* key, Integer& field, uint64_t min, uint64_t max) {
    const Setting* setting = group_.exists(key) ? &group_[key] : nullptr;
    if (setting && is_integer(*setting)) return integer(key, field, min, max);
    quantity(key, field, min, max, "bytes, or a size string as in \"64MiB\"", parse_bytes,
             format_bytes);
  }

  void text(const char* key, std::string& field) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (setting->getType() != Setting::TypeString) return wrong_type(*setting, key, "a string");
    field = setting->c_str();
  }

  void choice(const char* key, std::string& field, const std::vector<std::string_view>& allowed) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (setting->getType() != Setting::TypeString) return wrong_type(*setting, key, "a string");
    const std::string value = setting->c_str();
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
      return report(*setting, key,
                    fmt::format("'{}' is not one of: {}", value, fmt::join(allowed, ", ")));
    field = value;
  }

  template <class Parse>
  void checked(const char* key, std::string& field, Parse parse) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (setting->getType() != Setting::TypeString) return wrong_type(*setting, key, "a string");
    if (const auto parsed = parse(setting->c_str()); !parsed)
      return report(*setting, key, parsed.error().message);
    field = setting->c_str();
  }

  void texts(const char* key, std::vector<std::string>& field) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (!setting->isArray() && !setting->isList())
      return wrong_type(*setting, key, "an array of strings");
    field.clear();
    for (int i = 0; i < setting->getLength(); ++i) {
      const Setting& element = (*setting)[i];
      if (element.getType() != Setting::TypeString)
        return wrong_type(element, key, "an array of strings");
      field.emplace_back(element.c_str());
    }
  }

  void integers(const char* key, std::vector<unsigned>& field, unsigned max) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (!setting->isArray() && !setting->isList())
      return wrong_type(*setting, key, "an array of integers");
    field.clear();
    for (int i = 0; i < setting->getLength(); ++i) {
      const Setting& element = (*setting)[i];
      if (!is_integer(element)) return wrong_type(element, key, "an array of integers");
      const long long value = integer_of(element);
      if (value < 0 || value > static_cast<long long>(max))
        return report(element, key,
                      fmt::format("{} is out of range: allowed are 0 to {}", value, max));
      field.push_back(static_cast<unsigned>(value));
    }
  }

  // Returns a subgroup; nullptr if it is absent or not a group.
  const Setting* group(const char* key) {
    const Setting* setting = take(key);
    if (setting && !setting->isGroup()) {
      wrong_type(*setting, key, "a group { }");
      return nullptr;
    }
    return setting;
  }

  const Setting* list(const char* key) {
    const Setting* setting = take(key);
    if (setting && !setting->isList()) {
      wrong_type(*setting, key, "a list ( )");
      return nullptr;
    }
    return setting;
  }

  // REQUIRES: every key of the section has been visited.
  void refuse_unknown() {
    for (int i = 0; i < group_.getLength(); ++i) {
      const Setting& setting = group_[i];
      if (std::find(known_.begin(), known_.end(), setting.getName()) == known_.end())
        report(setting, setting.getName(),
               fmt::format("unknown key; the keys here are: {}", fmt::join(known_, ", ")));
    }
  }

 private:
  const Setting* take(const char* key) {
    known_.emplace_back(key);
    return group_.exists(key) ? &group_[key] : nullptr;
  }

  static bool is_integer(const Setting& setting) {
    return setting.getType() == Setting::TypeInt || setting.getType() == Setting::TypeInt64;
  }

  // libconfig has separate 32-bit and 64-bit integer types and does not convert them.
  static long long integer_of(const Setting& setting) {
    if (setting.getType() == Setting::TypeInt) return static_cast<int>(setting);
    return static_cast<long long>(setting);
  }

  template <class Integer, class Parse, class Format>
  void quantity(const char* key, Integer& field, uint64_t min, uint64_t max, const char* expected,
                Parse parse, Format format) {
    const Setting* setting = take(key);
    if (!setting) return;
    if (setting->getType() != Setting::TypeString) return wrong_type(*setting, key, expected);
    const Result<uint64_t> value = parse(setting->c_str());
    if (!value) return report(*setting, key, value.error().message);
    if (*value < min || *value > max)
      return report(*setting, key,
                    fmt::format("'{}' is out of range: allowed are {} to {}", setting->c_str(),
                                format(min), format(max)));
    field = static_cast<Integer>(*value);
  }

  void wrong_type(const Setting& setting, const char* key, const char* expected) {
    report(setting, key, fmt::format("expected {}, found {}", expected, type_text(setting)));
  }

  void report(const Setting& setting, const char* key, const std::string& what) {
    report_.add(setting, section_.empty() ? key : section_ + "." + key, what);
  }

  Report& report_;
  const Setting& group_;
  std::string section_;
  std::vector<std::string> known_;
};

}  // namespace itif::config
