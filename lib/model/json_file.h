// JSON from files that a tenant brought: bounded in size and depth, without duplicate keys, and
// read by functions whose errors name the file, the key, what was expected and what was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::model {

constexpr size_t kMaxJsonFileBytes = 16u << 20;
constexpr int kMaxJsonDepth = 32;

// The whole file. Errors: kNotFound, kPermission, kCorrupt (longer than max_bytes, not a regular
// file).
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

// `origin` names the text in errors: a path. Errors: kCorrupt (not JSON, deeper than kMaxJsonDepth,
// a key twice in one object, not an object at the top).
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& origin);
Result<nlohmann::json> read_json_file(const std::string& path);
// The same for a file whose top is an array (modules.json).
Result<nlohmann::json> parse_json(std::string_view text, const std::string& origin);

// Members of `object`. Errors: kInvalidArgument; `origin` names the file.
Result<uint32_t> get_uint(const nlohmann::json& object, const char* key, uint32_t least,
                          uint32_t most, const std::string& origin);
Result<uint32_t> get_uint_or(const nlohmann::json& object, const char* key, uint32_t least,
                             uint32_t most, uint32_t absent, const std::string& origin);
Result<double> get_number_or(const nlohmann::json& object, const char* key, double least,
                             double most, double absent, const std::string& origin);
Result<bool> get_bool_or(const nlohmann::json& object, const char* key, bool absent,
                         const std::string& origin);
Result<std::string> get_string_or(const nlohmann::json& object, const char* key,
                                  const std::string& absent, const std::string& origin);

// A value as it stands in a message: its JSON, cut to 60 bytes.
std::string shown(const nlohmann::json& value);

}  // namespace itif::model
