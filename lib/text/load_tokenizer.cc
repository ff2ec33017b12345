#include "text/load_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/json_file.h"
#include "text/albert_tokenizer.h"
#include "text/byte_bpe.h"
#include "text/marian_tokenizer.h"
#include "text/sentence_settings.h"
#include "text/tokenizer_class.h"
#include "text/wordpiece.h"
#include "text/wordpiece_files.h"

namespace itif::text {
namespace {

// The direction counts unless truncation_side is set.
Status refuse_left_truncation(const std::string& path) {
  const auto document = json_file::read_json_file(path);
  if (!document) return {};  // its own reader reports errors
  const auto truncation = document->find("truncation");
  if (truncation == document->end() || !truncation->is_object()) return {};
  const auto direction = truncation->find("direction");
  if (direction == truncation->end() || *direction == "Right") return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: 'truncation.direction' is not implemented: it must be \"Right\", "
                          "found {}",
                          path, json_file::shown(*direction)));
}

// Classes that follow tokenizer.json take the token of its 'padding' for a pad_token that no other
// file sets, and look for it in texts. `settings` is tokenizer_config.json.
Status refuse_padding_token(const std::string& directory, const nlohmann::json& settings) {
  const std::string path = directory + "/tokenizer.json";
  ITIF_ASSIGN(const std::string name, read_tokenizer_class(directory));
  if (!follows_tokenizer_json(directory, name) || settings.contains("pad_token")) return {};
  if (!settings.contains("added_tokens_decoder")) {
    const auto map = json_file::read_json_file(directory + "/special_tokens_map.json");
    if (map && map->contains("pad_token")) return {};
  }
  const auto document = json_file::read_json_file(path);
  if (!document) return {};  // its own reader reports errors
  const auto padding = document->find("padding");
  if (padding == document->end() || !padding->is_object()) return {};
  const auto token = padding->find("pad_token");
  if (token == padding->end()) return {};
  if (const auto added = document->find("added_tokens"); added != document->end())
    for (const nlohmann::json& other : *added)
      if (other.is_object() && other.value("content", nlohmann::json()) == *token) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: 'padding.pad_token' must be the pad_token of tokenizer_config.json "
                          "or an added token, found {}",
                          path, json_file::shown(*token)));
}

// transformers takes the newest file that its own version may read: "tokenizer.4.0.0.json".
Status refuse_other_versions(const nlohmann::json& settings, const std::string& path) {
  const auto files = settings.find("fast_tokenizer_files");
  if (files == settings.end() || files->is_null()) return {};
  const auto is_neutral = [](const nlohmann::json& file) {
    if (!file.is_string()) return false;
    const auto& name = file.get_ref<const std::string&>();
    return name == "tokenizer.json" || !name.starts_with("tokenizer.") || !name.ends_with(".json");
  };
  if (files->is_array() && std::ranges::all_of(*files, is_neutral)) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: 'fast_tokenizer_files' is not implemented: it must be "
                          "[\"tokenizer.json\"], found {}",
                          path, json_file::shown(*files)));
}

// Settings of tokenizer_config.json that change the tokens of any tokenizer.
Status refuse_unimplemented(const std::string& directory) {
  const std::string path = directory + "/tokenizer_config.json";
  auto settings = json_file::read_json_file(path);
  if (!settings && settings.error().code == Code::kNotFound) settings = nlohmann::json::object();
  if (!settings) return std::unexpected(settings.error());
  const auto check = [&](const char* key, const nlohmann::json& neutral) -> Status {
    const auto it = settings->find(key);
    if (it == settings->end() || it->is_null() || *it == neutral) return {};
    return fail(Code::kUnsupported,
                fmt::format("{}: '{}' is not implemented: it must be {}, found {}", path, key,
                            neutral.dump(), json_file::shown(*it)));
  };
  ITIF_TRY(check("truncation_side", "right"));
  ITIF_TRY(check("split_special_tokens", false));
  if (!is_marian_directory(directory)) ITIF_TRY(refuse_other_versions(*settings, path));
  ITIF_TRY(refuse_padding_token(directory, *settings));
  if (settings->contains("truncation_side")) return {};
  return refuse_left_truncation(directory + "/tokenizer.json");
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& directory) {
  ITIF_TRY(refuse_unimplemented(directory));
  if (is_marian_directory(directory)) return load_marian_tokenizer(directory);
  if (is_albert_directory(directory)) return load_albert_tokenizer(directory);
  if (is_byte_bpe_directory(directory)) {
    ITIF_TRY(check_sentence_case(directory, false));
    return load_byte_bpe_tokenizer(directory);
  }
  ITIF_ASSIGN(const WordPieceConfig config, read_wordpiece_files(directory));
  auto tokenizer = WordPieceTokenizer::create(config);
  if (!tokenizer)
    return fail(tokenizer.error().code,
                fmt::format("{}: {}", directory, tokenizer.error().message));
  return std::move(*tokenizer);
}

}  // namespace itif::text
