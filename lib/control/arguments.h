// Reads the args object of a request field by field. The first thing wrong is kept and told by
// name: a field that is missing, unknown, of another type or out of range.
//
//   Arguments in("tenant.add", args);
//   add.name = in.text("name", kNameRule);
//   add.weight = in.optional_number("weight", 1, 1000).value_or(1);
//   ITIF_TRY(in.finish());
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace itif::control {

// What a text field may hold: returns what is wrong with it, or nullptr.
using TextRule = const char* (*)(std::string_view text);

const char* tenant_name_rule(std::string_view text);  // a letter, then letters, digits, . _ -; ≤ 63
const char* group_name_rule(std::string_view text);     // the same, or empty
const char* absolute_path_rule(std::string_view text);  // "/…", ≤ 4095 bytes, no NUL

class Arguments {
 public:
  // REQUIRES: args is an object and outlives this.
  Arguments(std::string_view op, const nlohmann::json& args) : op_(op), args_(args) {}

  std::string text(const char* name, TextRule rule);
  std::optional<std::string> optional_text(const char* name, TextRule rule);
  std::optional<uint64_t> optional_number(const char* name, uint64_t min, uint64_t max);
  bool flag(const char* name);  // absent: false
  // One of `choices`; its index.
  std::optional<size_t> optional_choice(const char* name, std::span<const char* const> choices);
  // The field itself, for one that may have several types; nullptr if it is not there.
  const nlohmann::json* any(const char* name) { return find(name); }
  void wrong(const char* name, std::string_view must);  // "tenant.add: 'name' must be …"

  // The first error; or unknown fields, by name. Call last.
  Status finish();

 private:
  const nlohmann::json* find(const char* name);

  std::string_view op_;
  const nlohmann::json& args_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

}  // namespace itif::control
