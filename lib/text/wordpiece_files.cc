// Reads vocab.txt and the small JSON files beside it.
#include "text/wordpiece_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "json/json_file.h"
#include "text/sentence_settings.h"
#include "text/tokenizer_class.h"
#include "text/tokenizer_settings.h"
#include "text/unicode.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxVocabularyBytes = 16u << 20;
constexpr size_t kMaxAddedTokens = 65536;
constexpr std::array kSpecialNames = {"unk_token",  "sep_token", "pad_token", "cls_token",
                                      "mask_token", "bos_token", "eos_token"};
// Returns an empty object if the file does not exist.
Result<json> read_optional_json(const std::string& path) {
  Result<json> document = json_file::read_json_file(path);
  if (!document && document.error().code == Code::kNotFound) return json::object();
  return document;
}

// Reads a special token, given as a string or as an added token's object. No content: not set.
Result<AddedToken> special_token(const json& object, const char* key, const std::string& origin) {
  AddedToken token;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_object()) {
    ITIF_ASSIGN(token.content, json_file::get_string_or(object, key, "", origin));
    return token;
  }
  ITIF_ASSIGN(token.content, json_file::get_string_or(*it, "content", "", origin));
  if (token.content.empty()) return token;
  json entry = *it;
  entry["special"] = true;
  return read_added_token(entry, origin);
}

// Adds to a config's added tokens. Hashes names: files of a million entries must not take hours.
class AddedTokens {
 public:
  explicit AddedTokens(WordPieceConfig& config) : config_(config) {
    for (const AddedToken& token : config.added_tokens) known_.insert(token.content);
    // If a token occurs twice, the later id is used.
    for (const auto& [token, id] : config.tokens) ids_.insert_or_assign(token, id);
  }

  // Does nothing if the token is already there. Errors: kUnsupported: too many.
  Status add(AddedToken token, const std::string& origin) {
    if (!known_.insert(token.content).second) return {};
    if (config_.added_tokens.size() == kMaxAddedTokens)
      return fail(Code::kUnsupported,
                  fmt::format("{}: more than {} added tokens", origin, kMaxAddedTokens));
    config_.added_tokens.push_back(std::move(token));
    return {};
  }
  // Adds a special token, if the vocabulary has it. The model has no embedding for others.
  Status add_special(const std::string& name, bool normalized, const std::string& origin) {
    const auto it = ids_.find(name);
    if (name.empty() || it == ids_.end()) return {};
    return add({name, it->second, normalized}, origin);
  }
  // A token of this name in added_tokens.json matches the text as it is written.
  void expect_special(const std::string& name) { special_.insert(name); }
  bool is_special(const std::string& name) const { return special_.contains(name); }
  bool is_known(const std::string& name) const { return known_.contains(name); }

 private:
  WordPieceConfig& config_;
  std::unordered_set<std::string> known_, special_;
  std::unordered_map<std::string_view, int32_t> ids_;  // into config_.tokens, which do not change
};

Status read_normalizer_options(const json& settings, const std::string& origin,
                               bool ignores_lower_case, NormalizerOptions& options) {
  options = {};
  if (!ignores_lower_case) {
    ITIF_ASSIGN(options.lower_case,
                json_file::get_set_bool_or(settings, "do_lower_case", true, origin));
  }
  ITIF_ASSIGN(options.tokenize_chinese_chars,
              json_file::get_set_bool_or(settings, "tokenize_chinese_chars", true, origin));
  ITIF_ASSIGN(options.strip_accents,
              json_file::get_bool_or(settings, "strip_accents", options.lower_case, origin));
  return {};
}

Status read_added_decoder(const json& decoder, const std::string& origin, AddedTokens& added) {
  if (!decoder.is_object())
    return fail(Code::kCorrupt,
                fmt::format("{}: 'added_tokens_decoder' must be an object", origin));
  for (const auto& [key, entry] : decoder.items()) {
    int32_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 ||
        !entry.is_object())
      return fail(Code::kCorrupt,
                  fmt::format("{}: added_tokens_decoder must map ids to objects, "
                              "found {}: {}",
                              origin, json_file::shown(json(key)), json_file::shown(entry)));
    ITIF_ASSIGN(AddedToken token, read_added_token(entry, origin));
    token.id = id;
    ITIF_TRY(added.add(std::move(token), origin));
  }
  return {};
}

// Reads {"token": id}, which older versions wrote. REQUIRES: special tokens have been added.
Status read_added_file(const std::string& path, AddedTokens& added) {
  ITIF_ASSIGN(const json document, read_optional_json(path));
  for (const auto& [content, id] : document.items()) {
    if (content.empty() || !id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      return fail(Code::kCorrupt,
                  fmt::format("{}: must map tokens to ids, found {}: {}", path,
                              json_file::shown(json(content)), json_file::shown(id)));
    ITIF_TRY(added.add({content, id.get<int32_t>(), !added.is_special(content)}, path));
  }
  return {};
}

// Reads the special and added tokens. `source` says which steps the class replaces.
Status read_special_tokens(const std::string& directory, const json& settings,
                           const std::string& origin, BertSteps source, WordPieceConfig& config) {
  const bool has_decoder = settings.contains("added_tokens_decoder");
  AddedTokens added(config);
  json map = json::object();
  const std::string map_path = directory + "/special_tokens_map.json";
  if (!has_decoder) {
    ITIF_ASSIGN(map, read_optional_json(map_path));
  } else {
    ITIF_TRY(read_added_decoder(settings["added_tokens_decoder"], origin, added));
  }
  std::array<std::string*, kSpecialNames.size()> targets = {};
  if (source == BertSteps::kSettings) targets[0] = &config.unknown_token;
  if (source != BertSteps::kFile) {
    targets[1] = &config.separator_token;
    targets[3] = &config.classifier_token;
  }
  const std::array<const char*, kSpecialNames.size()> defaults = {
      "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", "", ""};
  for (size_t i = 0; i < kSpecialNames.size(); ++i) {
    ITIF_ASSIGN(AddedToken token, special_token(map, kSpecialNames[i], map_path));
    if (token.content.empty()) {
      ITIF_ASSIGN(token, special_token(settings, kSpecialNames[i], origin));
    }
    // Classes that follow tokenizer.json have no tokens of their own.
    if (token.content.empty() && source != BertSteps::kFile) token.content = defaults[i];
    added.expect_special(token.content);
    ITIF_TRY(added.add_special(token.content, token.normalized, origin));
    if (targets[i]) *targets[i] = token.content;
  }
  // transformers 5 does not read this key of the map when it chooses how tokens of
  // added_tokens.json match.
  json rest = map;
  rest.erase("additional_special_tokens");
  std::vector<SpecialToken> expected, extra;
  ITIF_TRY(read_extra_tokens(settings, origin, rest, map_path, expected));
  for (const SpecialToken& token : expected) added.expect_special(token.content);
  ITIF_TRY(read_extra_tokens(settings, origin, map, map_path, extra));
  for (const SpecialToken& token : extra)
    ITIF_TRY(added.add_special(token.content, token.normalized, origin));
  if (!has_decoder) ITIF_TRY(read_added_file(directory + "/added_tokens.json", added));
  for (const SpecialToken& token : extra)
    if (!added.is_known(token.content))
      return fail(Code::kUnsupported,
                  fmt::format("{}: the vocabulary lacks the additional special token {}", directory,
                              json_file::shown(json(token.content))));
  return {};
}

// `source`: kFile uses the ids of post_processor.
Status check_ids(const WordPieceConfig& config, BertSteps source, const std::string& directory) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (const auto& [token, id] : config.tokens) ids.insert_or_assign(token, id);
  std::map<std::string, int32_t> added;
  for (const AddedToken& token : config.added_tokens) added.emplace(token.content, token.id);
  const auto id_of = [&](const std::string& token) {
    const auto it = ids.find(token);
    return it == ids.end() ? -1 : it->second;
  };
  ITIF_TRY(check_added_ids(added, ids.size(), id_of, directory));
  if (source != BertSteps::kFile) return {};
  for (const auto& [written, token] :
       {std::pair{config.written_classifier_id, &config.classifier_token},
        {config.written_separator_id, &config.separator_token}}) {
    const auto it = added.find(*token);
    ITIF_TRY(check_written_id(written, *token, it == added.end() ? id_of(*token) : it->second,
                              directory + "/tokenizer.json"));
  }
  return {};
}

}  // namespace

Result<WordPieceVocabulary::Tokens> parse_vocabulary(std::string_view text,
                                                     const std::string& origin) {
  WordPieceVocabulary::Tokens tokens;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    if (!is_utf8(line))
      return fail(Code::kCorrupt,
                  fmt::format("{}: line {} is not UTF-8", origin, tokens.size() + 1));
    tokens.emplace_back(line, static_cast<int32_t>(tokens.size()));
    text.remove_prefix(end);
    if (text.starts_with("\r\n")) text.remove_prefix(1);
    if (!text.empty()) text.remove_prefix(1);
  }
  return tokens;
}

Result<WordPieceConfig> read_wordpiece_files(const std::string& directory) {
  const std::string settings_path = directory + "/tokenizer_config.json";
  const std::string json_path = directory + "/tokenizer.json";
  const std::string vocabulary_path = directory + "/vocab.txt";
  ITIF_ASSIGN(const json settings, read_optional_json(settings_path));
  ITIF_ASSIGN(std::string class_name, read_tokenizer_class(directory));

  WordPieceConfig config;
  Result<std::string> text = json_file::read_text_file(json_path, json_file::kMaxJsonFileBytes);
  const bool has_json = text.has_value();
  if (has_json) {
    ITIF_TRY(check_bert_class(directory, class_name));
    ITIF_ASSIGN(config, parse_tokenizer_json(*text, json_path));
  } else if (text.error().code != Code::kNotFound) {
    return std::unexpected(text.error());
  } else {
    text = json_file::read_text_file(vocabulary_path, kMaxVocabularyBytes);
    if (!text && text.error().code == Code::kNotFound)
      return fail(Code::kNotFound, fmt::format("{}: neither tokenizer.json nor vocab.txt; a model "
                                               "without them takes token ids only",
                                               directory));
    if (!text) return std::unexpected(text.error());
    ITIF_TRY(check_bert_class(directory, class_name));
    ITIF_ASSIGN(config.tokens, parse_vocabulary(*text, vocabulary_path));
  }
  if (class_name.empty()) class_name = "BertTokenizer";
  const BertSteps source = has_json ? steps_of_bert_class(class_name) : BertSteps::kSettings;
  if (source == BertSteps::kSettings) {
    ITIF_TRY(read_normalizer_options(settings, settings_path, is_dpr_class(class_name),
                                     config.normalizer));
    // The class builds its model with the vocabulary alone.
    const WordPieceConfig defaults;
    config.continuation_prefix = defaults.continuation_prefix;
    config.max_word_characters = defaults.max_word_characters;
    if (settings.contains("added_tokens_decoder")) config.added_tokens.clear();
  }
  ITIF_TRY(read_special_tokens(directory, settings, settings_path, source, config));
  ITIF_TRY(check_ids(config, source, directory));
  ITIF_TRY(check_sentence_case(directory, config.normalizer.lower_case));
  ITIF_ASSIGN(config.has_types, names_token_types(settings, settings_path));
  ITIF_ASSIGN(config.max_tokens, read_max_tokens(settings, settings_path));
  return config;
}

}  // namespace itif::text
