#include "text/framed_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>

#include "json/json_file.h"
#include "text/pair_truncation.h"
#include "text/unicode.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxAddedTokens = 65536;
constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

// Length of `text` without the white space at its end.
size_t without_space_behind(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t at = end - 1;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
    const char* point = text.data() + at;
    if (!is_white_space(next_code_point(point))) break;
    end = at;
  }
  return end;
}

// Length of the white space at the beginning of `text`.
size_t space_before(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    const char* next = at;
    if (!is_white_space(next_code_point(next))) break;
    at = next;
  }
  return static_cast<size_t>(at - text.data());
}

Result<json> read_optional_json(const std::string& path) {
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
    ITIF_ASSIGN(token.strips_left, json_file::get_bool_or(value, "lstrip", false, origin));
    ITIF_ASSIGN(token.strips_right, json_file::get_bool_or(value, "rstrip", false, origin));
    ITIF_ASSIGN(token.is_special, json_file::get_bool_or(value, "special", false, origin));
    ITIF_ASSIGN(token.normalized,
                json_file::get_bool_or(value, "normalized", !token.is_special, origin));
    token.has_flags = true;
    ITIF_ASSIGN(const bool single, json_file::get_bool_or(value, "single_word", false, origin));
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
  // extra_special_tokens is the newer name; its value may also be an object of named tokens.
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto it = document.find(key);
    if (it == document.end() || it->is_null()) continue;
    if (!it->is_structured() || it->size() > kMaxAddedTokens)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: '{}' must hold up to {} tokens, found {}", origin, key,
                              kMaxAddedTokens, json_file::shown(*it)));
    for (const json& value : *it) {
      ITIF_ASSIGN(SpecialToken token, read_special(value, key, origin));
      token.is_special = true;
      settings.more.push_back(std::move(token));
    }
  }
  return {};
}

// Reads the added tokens of a tokenizer.json.
Status read_added_list(const json& document, const std::string& origin,
                       TokenizerSettings& settings) {
  const auto list = document.find("added_tokens");
  if (list == document.end() || list->is_null()) return {};
  if (!list->is_array() || list->size() > kMaxAddedTokens)
    return fail(Code::kCorrupt, fmt::format("{}: 'added_tokens' must be an array of up to {}",
                                            origin, kMaxAddedTokens));
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
  if (!document.is_object() || document.size() > kMaxAddedTokens)
    return fail(Code::kCorrupt, fmt::format("{}: added tokens must be an object of up to {}",
                                            origin, kMaxAddedTokens));
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

}  // namespace

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
  ITIF_ASSIGN(const json document, read_optional_json(path));
  ITIF_ASSIGN(const json map, read_optional_json(map_path));
  ITIF_ASSIGN(const json added, read_optional_json(added_path));
  ITIF_TRY(read_names(document, path, settings));
  ITIF_TRY(read_names(map, map_path, settings));
  if (const auto decoder = document.find("added_tokens_decoder"); decoder != document.end()) {
    ITIF_TRY(read_added(*decoder, path, settings));
  } else {
    const std::string json_path = directory + "/tokenizer.json";
    ITIF_ASSIGN(const json whole, read_optional_json(json_path));
    ITIF_TRY(read_added_list(whole, json_path, settings));
  }
  ITIF_TRY(read_added(added, added_path, settings));
  // Files write a very large number for "no limit".
  ITIF_ASSIGN(const double most,
              json_file::get_number_or(document, "model_max_length", 1, 1e31, UINT32_MAX, path));
  settings.max_tokens = most >= UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(most);
  ITIF_ASSIGN(settings.class_name, json_file::get_string_or(document, "tokenizer_class", "", path));
  if (document.contains("add_prefix_space")) {
    ITIF_ASSIGN(settings.adds_prefix_space,
                json_file::get_bool_or(document, "add_prefix_space", false, path));
  }
  ITIF_ASSIGN(settings.names_token_types, names_token_types(document, path));
  ITIF_ASSIGN(settings.lower_case, json_file::get_bool_or(document, "do_lower_case", true, path));
  ITIF_ASSIGN(settings.keeps_accents,
              json_file::get_bool_or(document, "keep_accents", false, path));
  return settings;
}

Status FramedTokenizer::set_frame(const TokenizerSettings& settings,
                                  std::span<const Default> defaults,
                                  const std::function<int32_t(const std::string&)>& id_of,
                                  TokenFrame frame) {
  std::vector<SpecialToken> specials;
  frame.first = frame.last = -1;
  // Finds a token's id, and its flags where it is also an added token.
  const auto resolve = [&](SpecialToken& token) {
    token.id = id_of(token.content);
    for (const SpecialToken& added : settings.added) {
      if (added.content != token.content) continue;
      token.id = added.id;
      if (!added.has_flags) continue;
      token.strips_left = added.strips_left;
      token.strips_right = added.strips_right;
    }
  };
  for (const auto& [key, content] : defaults) {
    const auto named = settings.names.find(key);
    SpecialToken token =
        named != settings.names.end() ? named->second : SpecialToken{.content = content, .id = -1};
    if (std::string_view(key) == "mask_token" && !token.has_flags) token.strips_left = true;
    resolve(token);
    if (frame.first_key && std::string_view(key) == frame.first_key) frame.first = token.id;
    if (std::string_view(key) == frame.last_key) frame.last = token.id;
    if (token.id >= 0) specials.push_back(std::move(token));
  }
  if ((frame.first_key && frame.first < 0) || frame.last < 0)
    return fail(Code::kCorrupt, frame.first_key
                                    ? fmt::format("the vocabulary lacks the {} or the {}",
                                                  frame.first_key, frame.last_key)
                                    : fmt::format("the vocabulary lacks the {}", frame.last_key));
  for (const auto& [key, named] : settings.names) {
    SpecialToken token = named;
    resolve(token);
    if (token.id >= 0) specials.push_back(std::move(token));
  }
  for (SpecialToken token : settings.more) {
    resolve(token);
    if (token.id < 0)
      return fail(Code::kUnsupported,
                  fmt::format("the vocabulary lacks the additional special token {}",
                              json_file::shown(json(token.content))));
    specials.push_back(std::move(token));
  }
  specials.insert(specials.end(), settings.added.begin(), settings.added.end());
  frame_ = frame;
  return set_specials(std::move(specials));
}

Status FramedTokenizer::set_specials(std::vector<SpecialToken> specials) {
  WordPieceVocabulary::Tokens contents;
  for (SpecialToken& special : specials) {
    if (specials_.contains(special.id)) continue;
    first_byte_[static_cast<uint8_t>(special.content[0])] = true;
    contents.emplace_back(special.content, special.id);
    vocab_size_ = std::max(vocab_size_, static_cast<uint32_t>(special.id) + 1);
    specials_.emplace(special.id, std::move(special));
  }
  ITIF_ASSIGN(contents_, WordPieceVocabulary::build(contents, ""));
  return {};
}

bool FramedTokenizer::is_special(int32_t id) const {
  const auto it = specials_.find(id);
  return it != specials_.end() && it->second.is_special;
}

// Returns the ids of one text, complete only up to `most` ids.
std::vector<int32_t> FramedTokenizer::cut(std::string_view text, size_t most) const {
  std::vector<int32_t> ids;
  const auto flush = [&](size_t begin, size_t end) {
    if (begin < end) append_text(text.substr(begin, end - begin), most, ids);
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && ids.size() < most;) {
    WordPieceVocabulary::Match match;
    if (first_byte_[static_cast<uint8_t>(text[at])])
      match = contents_.longest(text.substr(at), true);
    if (match.id < 0) {
      ++at;
      continue;
    }
    const SpecialToken& special = specials_.at(match.id);
    const std::string_view before = text.substr(begin, at - begin);
    flush(begin, begin + (special.strips_left ? without_space_behind(before) : before.size()));
    ids.push_back(match.id);
    at += match.bytes;
    if (special.strips_right) at += space_before(text.substr(at));
    begin = at;
  }
  if (ids.size() < most) flush(begin, text.size());
  return ids;
}

EncodeStatus FramedTokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                                     const EncodeOptions& options, std::vector<int32_t>& ids,
                                     std::vector<uint8_t>& token_types) const noexcept {
  if (!is_utf8(text) || (pair && !is_utf8(*pair))) return EncodeStatus::kMalformed;
  const size_t num_first = frame_.first >= 0 ? 1 : 0;
  const size_t num_special = num_first + 1u + (pair ? (frame_.doubles_last ? 2u : 1u) : 0u);
  if (options.max_tokens < num_special) return EncodeStatus::kTooLong;
  const size_t room = options.max_tokens - num_special;
  const bool refuses = options.truncation == Truncation::kRefuse;
  const size_t start = ids.size();
  try {
    // Refusing needs one id too many; cutting the longer text needs both lengths.
    const size_t most = !refuses && pair ? SIZE_MAX : room + 1;
    std::vector<int32_t> first = cut(text, most);
    std::vector<int32_t> second;
    if (pair && first.size() <= most) second = cut(*pair, most);
    if (first.size() + second.size() > room) {
      if (refuses) return EncodeStatus::kTooLong;
      const PairLengths keep = cut_longest_first(first.size(), second.size(), room);
      first.resize(keep.first);
      second.resize(keep.second);
    }
    if (num_first > 0) ids.push_back(frame_.first);
    ids.insert(ids.end(), first.begin(), first.end());
    ids.push_back(frame_.last);
    token_types.resize(token_types.size() + first.size() + num_first + 1, 0);
    if (!pair) return EncodeStatus::kOk;
    if (frame_.doubles_last) ids.push_back(frame_.last);
    ids.insert(ids.end(), second.begin(), second.end());
    ids.push_back(frame_.last);
    const size_t num_second = ids.size() - start - first.size() - num_first - 1;
    token_types.resize(token_types.size() + num_second, frame_.has_types ? 1 : 0);
    return EncodeStatus::kOk;
  } catch (const std::exception&) {  // no memory
    token_types.resize(token_types.size() - std::min(token_types.size(), ids.size() - start));
    ids.resize(start);
    return EncodeStatus::kTooLong;
  }
}

}  // namespace itif::text
