#include "text/tokenizer_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "json/json_file.h"
#include "text/tokenizer_class.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxSettingsTokens = 65536;
constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

Result<json> read_settings_file(const std::string& path) {
  Result<json> document = json_file::read_json_file(path);
  if (!document && document.error().code == Code::kNotFound) return json::object();
  return document;
}

// Reads a token, given as a string or as an added token's object.
Result<SpecialToken> read_special(const json& value, const std::string& key,
                                  const std::string& origin) {
  SpecialToken token;
  token.id = -1;
  if (value.is_string()) {
    token.content = value.get<std::string>();
  } else if (value.is_object()) {
    ITIF_ASSIGN(token.content, json_file::get_string_or(value, "content", "", origin));
    ITIF_ASSIGN(token.strips_left, json_file::get_set_bool_or(value, "lstrip", false, origin));
    ITIF_ASSIGN(token.strips_right, json_file::get_set_bool_or(value, "rstrip", false, origin));
    ITIF_ASSIGN(token.is_special, json_file::get_set_bool_or(value, "special", false, origin));
    ITIF_ASSIGN(token.normalized,
                json_file::get_set_bool_or(value, "normalized", !token.is_special, origin));
    token.has_flags = true;
    ITIF_ASSIGN(const bool single, json_file::get_set_bool_or(value, "single_word", false, origin));
    if (single)
      return fail(Code::kUnsupported,
                  fmt::format("{}: added token {} is single_word, which this build does not run",
                              origin, json_file::shown(json(token.content))));
  }
  if (token.content.empty())
    return fail(Code::kInvalidArgument, fmt::format("{}: '{}' must be a token, found {}", origin,
                                                    key, json_file::shown(value)));
  return token;
}

Status read_names(const json& document, const std::string& origin, TokenizerSettings& settings) {
  for (const char* key : kNames) {
    const auto it = document.find(key);
    if (it == document.end() || it->is_null() || settings.names.contains(key)) continue;
    ITIF_ASSIGN(SpecialToken token, read_special(*it, key, origin));
    token.is_special = true;
    settings.names[key] = std::move(token);
  }
  return {};
}

// Reads the added tokens of a tokenizer.json.
Status read_added_list(const json& document, const std::string& origin,
                       TokenizerSettings& settings) {
  const auto list = document.find("added_tokens");
  if (list == document.end() || list->is_null()) return {};
  if (!list->is_array() || list->size() > kMaxSettingsTokens)
    return fail(Code::kCorrupt, fmt::format("{}: 'added_tokens' must be an array of up to {}",
                                            origin, kMaxSettingsTokens));
  for (const json& value : *list) {
    const auto id = value.is_object() ? value.find("id") : value.end();
    if (!value.is_object() || id == value.end() || !id->is_number_unsigned() ||
        id->get<uint64_t>() > INT32_MAX)
      return fail(Code::kCorrupt, fmt::format("{}: an added token must have an id, found {}",
                                              origin, json_file::shown(value)));
    ITIF_ASSIGN(SpecialToken token, read_special(value, "added_tokens", origin));
    token.id = id->get<int32_t>();
    settings.added.push_back(std::move(token));
  }
  return {};
}

Status read_added(const json& document, const std::string& origin, TokenizerSettings& settings) {
  if (!document.is_object() || document.size() > kMaxSettingsTokens)
    return fail(Code::kCorrupt, fmt::format("{}: added tokens must be an object of up to {}",
                                            origin, kMaxSettingsTokens));
  for (const auto& [key, value] : document.items()) {
    // {"id": {"content": …}} of tokenizer_config.json, or {"content": id} of added_tokens.json.
    int32_t id = -1;
    const bool by_id = value.is_object();
    if (by_id) {
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
      if (parsed.ptr != key.data() + key.size()) id = -1;
    } else if (value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX) {
      id = value.get<int32_t>();
    }
    if (id < 0)
      return fail(Code::kCorrupt,
                  fmt::format("{}: an added token must have an id, found {}: {}", origin,
                              json_file::shown(json(key)), json_file::shown(value)));
    ITIF_ASSIGN(SpecialToken token, read_special(by_id ? value : json(key), key, origin));
    token.id = id;
    if (!by_id) {
      token.is_special = false;
      token.normalized = true;
    }
    settings.added.push_back(std::move(token));
  }
  return {};
}

// Returns an array or an object of tokens; null: not set.
Result<json> tokens_at(const json& document, const char* key, const std::string& origin) {
  const auto it = document.find(key);
  if (it == document.end() || it->is_null()) return json();
  if (it->is_structured() && it->size() <= kMaxSettingsTokens) return *it;
  return fail(Code::kInvalidArgument,
              fmt::format("{}: '{}' must hold up to {} tokens, found {}", origin, key,
                          kMaxSettingsTokens, json_file::shown(*it)));
}

Status add_extra(const json& value, const std::string& key, const std::string& origin,
                 std::vector<SpecialToken>& extra) {
  ITIF_ASSIGN(SpecialToken token, read_special(value, key, origin));
  token.is_special = true;
  extra.push_back(std::move(token));
  return {};
}

}  // namespace

Status read_extra_tokens(const json& document, const std::string& origin, const json& map,
                         const std::string& map_origin, std::vector<SpecialToken>& extra) {
  const auto add = [&](const json& value, const std::string& key, const std::string& file) {
    return add_extra(value, key, file, extra);
  };
  // transformers renames additional_special_tokens to extra_special_tokens: both are read.
  ITIF_ASSIGN(json list, tokens_at(document, "extra_special_tokens", origin));
  ITIF_ASSIGN(json older, tokens_at(document, "additional_special_tokens", origin));
  bool is_set = document.contains("extra_special_tokens");
  if (list.empty() && !older.is_null()) {
    list = std::exchange(older, json());
    is_set = true;
  }
  if (list.is_object()) {
    for (const json& value : list) ITIF_TRY(add(value, "extra_special_tokens", origin));
    list = json();
    is_set = false;
  }
  ITIF_ASSIGN(const json more, tokens_at(map, "extra_special_tokens", map_origin));
  for (const json& value : more) ITIF_TRY(add(value, "extra_special_tokens", map_origin));
  if (map.contains("additional_special_tokens")) {
    ITIF_ASSIGN(older, tokens_at(map, "additional_special_tokens", map_origin));
  }
  if (!is_set && more.is_null()) list = std::move(older);
  for (const json& value : list) ITIF_TRY(add(value, "extra_special_tokens", origin));
  ITIF_ASSIGN(const json named, tokens_at(document, "model_specific_special_tokens", origin));
  for (const json& value : named) ITIF_TRY(add(value, "model_specific_special_tokens", origin));
  for (const auto& [file, name] : {std::pair{&document, &origin}, {&map, &map_origin}})
    for (const auto& [key, value] : file->items()) {
      if (!key.ends_with("_token") || std::ranges::find(kNames, key) != std::end(kNames)) continue;
      // add_bos_token and the like are flags.
      if (value.is_string() || (value.is_object() && value.contains("content")))
        ITIF_TRY(add(value, key, *name));
    }
  return {};
}

std::map<std::string, int32_t> added_ids(const TokenizerSettings& settings) {
  std::map<std::string, int32_t> ids;
  for (const SpecialToken& token : settings.added) ids.emplace(token.content, token.id);
  return ids;
}

Status check_added_ids(const std::map<std::string, int32_t>& added, size_t vocabulary_size,
                       const std::function<int32_t(const std::string&)>& id_of,
                       const std::string& directory) {
  std::vector<std::pair<int32_t, const std::string*>> by_id;
  for (const auto& [content, id] : added) by_id.emplace_back(id, &content);
  std::ranges::sort(by_id);
  auto next = static_cast<int32_t>(vocabulary_size);
  for (const auto& [id, content] : by_id) {
    int32_t expected = id_of(*content);
    if (expected < 0) expected = next++;
    if (id != expected)
      return fail(Code::kUnsupported,
                  fmt::format("{}: added token {} must have the id {}, the next after the "
                              "vocabulary or its id there, found {}",
                              directory, json_file::shown(json(*content)), expected, id));
  }
  return {};
}

Result<uint32_t> read_max_tokens(const json& settings, const std::string& origin) {
  const char* const key = settings.contains("model_max_length") ? "model_max_length" : "max_len";
  // Files write a very large number for "no limit".
  ITIF_ASSIGN(const double most,
              json_file::get_number_or(settings, key, 2, 1e31, UINT32_MAX, origin));
  return most >= UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(most);
}

Result<bool> names_token_types(const json& settings, const std::string& origin) {
  const auto names = settings.find("model_input_names");
  if (names == settings.end() || names->is_null()) return true;
  if (!names->is_array())
    return fail(Code::kInvalidArgument,
                fmt::format("{}: 'model_input_names' must be an array, found {}", origin,
                            json_file::shown(*names)));
  return std::ranges::find(*names, json("token_type_ids")) != names->end();
}

Result<TokenizerSettings> read_tokenizer_settings(const std::string& directory) {
  TokenizerSettings settings;
  const std::string path = directory + "/tokenizer_config.json";
  const std::string map_path = directory + "/special_tokens_map.json";
  const std::string added_path = directory + "/added_tokens.json";
  ITIF_ASSIGN(const json document, read_settings_file(path));
  ITIF_ASSIGN(const json map, read_settings_file(map_path));
  ITIF_ASSIGN(const json added, read_settings_file(added_path));
  // The first file that names a token counts.
  const auto decoder = document.find("added_tokens_decoder");
  const bool has_decoder = decoder != document.end();
  ITIF_ASSIGN(settings.class_name, read_tokenizer_class(directory));
  if (!has_decoder) ITIF_TRY(read_names(map, map_path, settings));
  settings.has_default_tokens = !follows_tokenizer_json(directory, settings.class_name);
  if (!has_decoder || !settings.has_default_tokens) {
    const std::string json_path = directory + "/tokenizer.json";
    ITIF_ASSIGN(const json whole, read_settings_file(json_path));
    ITIF_TRY(read_added_list(whole, json_path, settings));
  }
  ITIF_TRY(has_decoder ? read_added(*decoder, path, settings)
                       : read_added(added, added_path, settings));
  ITIF_TRY(read_names(document, path, settings));
  ITIF_TRY(read_extra_tokens(document, path, has_decoder ? json::object() : map, map_path,
                             settings.more));
  ITIF_ASSIGN(settings.max_tokens, read_max_tokens(document, path));
  if (document.contains("add_prefix_space")) {
    const auto get = is_roberta_class(settings.class_name) ? json_file::get_set_bool_or
                                                           : json_file::get_bool_or_null;
    ITIF_ASSIGN(settings.adds_prefix_space, get(document, "add_prefix_space", false, path));
  }
  ITIF_ASSIGN(settings.names_token_types, names_token_types(document, path));
  ITIF_ASSIGN(settings.lower_case,
              json_file::get_bool_or_null(document, "do_lower_case", true, path));
  ITIF_ASSIGN(settings.keeps_accents,
              json_file::get_bool_or(document, "keep_accents", false, path));
  return settings;
}

}  // namespace itif::text
