// Reads tokenizer.json, a pipeline of named steps. Only BERT's steps are accepted. Any other is
// refused by name, because ids would differ without it.
#include <fmt/format.h>

#include "json/json_file.h"
#include "text/wordpiece_files.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr int64_t kMaxId = (1 << 24) - 1;

// Returns the step `name`, which must be an object with a type.
Result<const json*> step(const json& document, const char* name, const std::string& origin) {
  const auto it = document.find(name);
  if (it == document.end() || !it->is_object() || !it->contains("type") ||
      !(*it)["type"].is_string())
    return fail(Code::kUnsupported,
                fmt::format("{}: no {}; a BERT tokenizer has one", origin, name));
  return &*it;
}

Status check_type(const json& value, const char* name, const char* expected,
                  const std::string& origin) {
  const auto& type = value["type"].get_ref<const std::string&>();
  if (type == expected) return {};
  return fail(Code::kUnsupported, fmt::format("{}: {} is {}; this build runs {}", origin, name,
                                              json_file::shown(value["type"]), expected));
}

Result<int32_t> get_id(const json& value, const std::string& token, const std::string& origin) {
  if (value.is_number_unsigned() && value.get<uint64_t>() <= kMaxId) return value.get<int32_t>();
  return fail(Code::kCorrupt,
              fmt::format("{}: token {} must have an id from 0 to {}, found {}", origin,
                          json_file::shown(json(token)), kMaxId, json_file::shown(value)));
}

int32_t id_or_none(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= kMaxId ? value.get<int32_t>() : -1;
}

Status read_model(const json& document, const std::string& origin, WordPieceConfig& config) {
  const auto it = document.find("model");
  if (it == document.end() || !it->is_object())
    return fail(Code::kCorrupt, fmt::format("{}: 'model' must be an object", origin));
  // Files of the first versions have no type; a prefix then identifies WordPiece.
  if (it->contains("type") ? (*it)["type"] != "WordPiece"
                           : !it->contains("continuing_subword_prefix"))
    return fail(
        Code::kUnsupported,
        fmt::format("{}: model is {}; this build runs WordPiece", origin,
                    it->contains("type") ? json_file::shown((*it)["type"]) : "without a type"));
  ITIF_ASSIGN(config.unknown_token, json_file::get_string_or(*it, "unk_token", "[UNK]", origin));
  ITIF_ASSIGN(config.continuation_prefix,
              json_file::get_string_or(*it, "continuing_subword_prefix", "##", origin));
  ITIF_ASSIGN(config.max_word_characters,
              json_file::get_uint_or(*it, "max_input_chars_per_word", 1, UINT32_MAX, 100, origin));
  const auto vocabulary = it->find("vocab");
  if (vocabulary == it->end() || !vocabulary->is_object())
    return fail(Code::kCorrupt, fmt::format("{}: model.vocab must be an object", origin));
  for (const auto& [token, value] : vocabulary->items()) {
    ITIF_ASSIGN(const int32_t id, get_id(value, token, origin));
    config.tokens.emplace_back(token, id);
  }
  return {};
}

Status read_normalizer(const json& document, const std::string& origin, WordPieceConfig& config) {
  ITIF_ASSIGN(const json* value, step(document, "normalizer", origin));
  ITIF_TRY(check_type(*value, "normalizer", "BertNormalizer", origin));
  NormalizerOptions& options = config.normalizer;
  ITIF_ASSIGN(options.clean_text, json_file::get_set_bool_or(*value, "clean_text", true, origin));
  ITIF_ASSIGN(options.tokenize_chinese_chars,
              json_file::get_set_bool_or(*value, "handle_chinese_chars", true, origin));
  ITIF_ASSIGN(options.lower_case, json_file::get_set_bool_or(*value, "lowercase", true, origin));
  ITIF_ASSIGN(options.strip_accents,
              json_file::get_bool_or(*value, "strip_accents", options.lower_case, origin));
  return {};
}

// Returns the one id of a token in a template; -1: there is none, or are several.
int32_t template_id(const json& value, const std::string& token) {
  const auto tokens = value.find("special_tokens");
  if (tokens == value.end() || !tokens->is_object()) return -1;
  const auto entry = tokens->find(token);
  if (entry == tokens->end() || !entry->is_object()) return -1;
  const auto ids = entry->find("ids");
  if (ids == entry->end() || !ids->is_array() || ids->size() != 1) return -1;
  return id_or_none((*ids)[0]);
}

// One entry of a template: {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, or a Sequence.
struct TemplateItem {
  bool special = false;
  std::string id;
  int type = -1;
};
Result<std::vector<TemplateItem>> read_template(const json& value, const char* name,
                                                const std::string& origin) {
  const auto refuse = [&] {
    return fail(Code::kUnsupported,
                fmt::format("{}: post_processor's template '{}' is not BERT's: {}", origin, name,
                            value.contains(name) ? json_file::shown(value[name]) : "nothing"));
  };
  if (!value.contains(name) || !value[name].is_array()) return refuse();
  std::vector<TemplateItem> items;
  for (const json& entry : value[name]) {
    if (!entry.is_object() || entry.size() != 1) return refuse();
    const json& body = entry.begin().value();
    if (!body.is_object() || !body.contains("id") || !body["id"].is_string() ||
        !body.contains("type_id") || !body["type_id"].is_number_unsigned() ||
        body["type_id"].get<uint64_t>() > 1)
      return refuse();
    items.push_back({entry.begin().key() == "SpecialToken", body["id"].get<std::string>(),
                     body["type_id"].get<int>()});
  }
  const bool pair = std::string_view(name) == "pair";
  const size_t size = pair ? 5 : 3;
  if (items.size() != size) return refuse();
  for (size_t i = 0; i < size; ++i) {
    const bool sequence = i == 1 || i == 3;
    if (items[i].special == sequence || items[i].type != (i > 2 ? 1 : 0)) return refuse();
    if (sequence && items[i].id != (i == 1 ? "A" : "B")) return refuse();
  }
  if (pair && items[4].id != items[2].id) return refuse();
  return items;
}

Status read_added_tokens(const json& document, const std::string& origin, WordPieceConfig& config) {
  const auto it = document.find("added_tokens");
  if (it == document.end() || it->is_null()) return {};
  if (!it->is_array())
    return fail(Code::kCorrupt, fmt::format("{}: 'added_tokens' must be an array", origin));
  for (const json& entry : *it) {
    if (!entry.is_object() || !entry.contains("id"))
      return fail(Code::kCorrupt, fmt::format("{}: an added token must be an object with an id, "
                                              "found {}",
                                              origin, json_file::shown(entry)));
    ITIF_ASSIGN(AddedToken token, read_added_token(entry, origin));
    ITIF_ASSIGN(token.id, get_id(entry["id"], token.content, origin));
    config.added_tokens.push_back(std::move(token));
  }
  return {};
}

}  // namespace

Status read_post_processor(const json& document, const std::string& origin,
                           WordPieceConfig& config) {
  ITIF_ASSIGN(const json* value, step(document, "post_processor", origin));
  if ((*value)["type"] == "BertProcessing") {
    for (const auto& [key, token, id] :
         {std::tuple{"cls", &config.classifier_token, &config.written_classifier_id},
          {"sep", &config.separator_token, &config.written_separator_id}}) {
      const auto it = value->find(key);
      if (it == value->end() || !it->is_array() || it->empty() || !(*it)[0].is_string())
        return fail(Code::kCorrupt,
                    fmt::format("{}: post_processor.{} must be [token, id]", origin, key));
      *token = (*it)[0].get<std::string>();
      *id = it->size() == 2 ? id_or_none((*it)[1]) : -1;
    }
    return {};
  }
  ITIF_TRY(check_type(*value, "post_processor", "TemplateProcessing", origin));
  ITIF_ASSIGN(const std::vector<TemplateItem> single, read_template(*value, "single", origin));
  ITIF_ASSIGN(const std::vector<TemplateItem> pair, read_template(*value, "pair", origin));
  if (pair[0].id != single[0].id || pair[2].id != single[2].id)
    return fail(
        Code::kUnsupported,
        fmt::format("{}: post_processor frames pairs and texts with different tokens", origin));
  config.classifier_token = single[0].id;
  config.separator_token = single[2].id;
  config.written_classifier_id = template_id(*value, config.classifier_token);
  config.written_separator_id = template_id(*value, config.separator_token);
  return {};
}

Status check_written_id(int32_t written, const std::string& token, int32_t id,
                        const std::string& origin) {
  if (written == id || id < 0) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: post_processor must give {} the id {} of the vocabulary, found {}",
                          origin, json_file::shown(json(token)), id,
                          written < 0 ? std::string("no single id") : fmt::format("{}", written)));
}

Result<AddedToken> read_added_token(const json& entry, const std::string& origin) {
  AddedToken token;
  ITIF_ASSIGN(token.content, json_file::get_string_or(entry, "content", "", origin));
  if (token.content.empty())
    return fail(Code::kCorrupt, fmt::format("{}: an added token without content: {}", origin,
                                            json_file::shown(entry)));
  ITIF_ASSIGN(const bool special, json_file::get_set_bool_or(entry, "special", false, origin));
  ITIF_ASSIGN(token.normalized, json_file::get_set_bool_or(entry, "normalized", !special, origin));
  ITIF_ASSIGN(const bool single_word,
              json_file::get_set_bool_or(entry, "single_word", false, origin));
  if (single_word)
    return fail(Code::kUnsupported,
                fmt::format("{}: added token {} is single_word, which this build does not run",
                            origin, json_file::shown(json(token.content))));
  return token;  // lstrip and rstrip are ignored: WordPiece drops white space anyway
}

Result<WordPieceConfig> parse_tokenizer_json(std::string_view text, const std::string& origin) {
  ITIF_ASSIGN(const json document, json_file::parse_json_object(text, origin));
  WordPieceConfig config;
  ITIF_TRY(read_model(document, origin, config));
  ITIF_TRY(read_normalizer(document, origin, config));
  ITIF_ASSIGN(const json* splitter, step(document, "pre_tokenizer", origin));
  ITIF_TRY(check_type(*splitter, "pre_tokenizer", "BertPreTokenizer", origin));
  ITIF_TRY(read_post_processor(document, origin, config));
  ITIF_TRY(read_added_tokens(document, origin, config));
  return config;
}

}  // namespace itif::text
