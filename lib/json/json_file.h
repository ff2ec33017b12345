// Reads JSON files that a tenant supplied: bounded in size and depth, without duplicate keys.
// Errors name the file, the key, the expected and the found value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::json_file {

constexpr size_t kMaxJsonFileBytes = 16u << 20;
constexpr int kMaxJsonDepth = 32;

// Reads the whole file. Errors: kNotFound, kPermission, kCorrupt (longer than max_bytes, not a
// regular file).
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

// `origin` names the text in errors: a path. Errors: kCorrupt (not JSON, deeper than kMaxJsonDepth,
// a key twice in one object, not an object at the top).
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& origin);
Result<nlohmann::json> read_json_file(const std::string& path);
// Like parse_json_object(), but the top may be any value: modules.json has an array.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& origin);

// Read a member of `object`; the `_or` functions return `absent` if it is missing or null. Errors:
// kInvalidArgument; `origin` names the file.
Result<uint32_t> get_uint(const nlohmann::json& object, const char* key, uint32_t least,
                          uint32_t most, const std::string& origin);
Result<uint32_t> get_uint_or(const nlohmann::json& object, const char* key, uint32_t least,
                             uint32_t most, uint32_t absent, const std::string& origin);
Result<double> get_number_or(const nlohmann::json& object, const char* key, double least,
                             double most, double absent, const std::string& origin);
Result<bool> get_bool_or(const nlohmann::json& object, const char* key, bool absent,
                         const std::string& origin);
// As get_bool_or(), but null is false, as Python reads it, and not a missing member.
Result<bool> get_bool_or_null(const nlohmann::json& object, const char* key, bool absent,
                              const std::string& origin);
// As get_bool_or(), but refuses null, for which the library fails. Errors: also kUnsupported: null.
Result<bool> get_set_bool_or(const nlohmann::json& object, const char* key, bool absent,
                             const std::string& origin);
Result<std::string> get_string_or(const nlohmann::json& object, const char* key,
                                  const std::string& absent, const std::string& origin);

// A value for messages: its JSON, cut to 60 bytes.
std::string shown(const nlohmann::json& value);

}  // namespace itif::json_file
