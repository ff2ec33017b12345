// Reads the args object of a request field by field. Keeps the first error and names its field:
// missing, unknown, of the wrong type or out of range.
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

// Checks a text field: returns nullptr if it is valid, else the text that follows "must be".
using TextRule = const char* (*)(std::string_view text);

const char* tenant_name_rule(std::string_view text);  // a letter, then letters, digits, . _ -; ≤ 63
const char* group_name_rule(std::string_view text);  // the same, or empty
// A name of a planner or policy, and settings: "slotted:slot_tokens=32". 1 to 255 printable
// characters. The appliance knows which there are.
const char* spec_rule(std::string_view text);
const char* absolute_path_rule(std::string_view text);  // "/…", ≤ 4095 bytes, no NUL
const char* base_rule(std::string_view text);           // such a path, or a tenant's name

class Arguments {
 public:
  // REQUIRES: args is an object and outlives *this.
  Arguments(std::string_view op, const nlohmann::json& args) : op_(op), args_(args) {}

  std::string text(const char* name, TextRule rule);
  std::optional<std::string> optional_text(const char* name, TextRule rule);
  std::optional<uint64_t> optional_number(const char* name, uint64_t min, uint64_t max);
  bool flag(const char* name);  // absent: false
  // Returns the index of the field's value in `choices`.
  std::optional<size_t> optional_choice(const char* name, std::span<const char* const> choices);
  // Returns a field that may have several types; nullptr if absent.
  const nlohmann::json* any(const char* name) { return find(name); }
  void wrong(const char* name, std::string_view must);  // "tenant.add: 'name' must be …"

  // Returns an error for an unknown field, else the first error kept. Call last.
  Status finish();

 private:
  const nlohmann::json* find(const char* name);

  std::string_view op_;
  const nlohmann::json& args_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

}  // namespace itif::control
