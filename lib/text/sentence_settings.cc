#include "text/sentence_settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "json/json_file.h"

namespace itif::text {
namespace {

using nlohmann::json;

// In the order in which sentence-transformers looks for them.
constexpr const char* kSettingsNames[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"};

// Arguments for the library's own loaders, which may change any setting of the model. null and {}
// are neutral.
constexpr const char* kLoaderArguments[] = {
    "tokenizer_args",   "tokenizer_kwargs",  "config_args",    "config_kwargs",
    "processor_kwargs", "processing_kwargs", "query_expansion"};

}  // namespace

Result<SentenceSettings> read_sentence_settings(const std::string& directory) {
  for (const char* name : kSettingsNames) {
    SentenceSettings settings{.path = directory + "/" + name};
    if (::access(settings.path.c_str(), F_OK) != 0) continue;
    ITIF_ASSIGN(const json config, json_file::read_json_file(settings.path));
    for (const char* key : kLoaderArguments) {
      const auto it = config.find(key);
      if (it == config.end() || it->empty()) continue;
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' is not implemented: it must be empty, found {}",
                              settings.path, key, json_file::shown(*it)));
    }
    const auto length = config.find("max_seq_length");
    if (length != config.end() && !length->is_null()) {
      ITIF_ASSIGN(settings.max_seq_length,
                  json_file::get_uint(config, "max_seq_length", 1, UINT32_MAX, settings.path));
    }
    ITIF_ASSIGN(settings.do_lower_case,
                json_file::get_bool_or(config, "do_lower_case", false, settings.path));
    return settings;
  }
  return SentenceSettings{};
}

Status check_sentence_case(const std::string& directory, bool tokenizer_lowers_case) {
  ITIF_ASSIGN(const SentenceSettings settings, read_sentence_settings(directory));
  if (!settings.do_lower_case || tokenizer_lowers_case) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: do_lower_case is true, but the tokenizer keeps case; set "
                          "do_lower_case in tokenizer_config.json",
                          settings.path));
}

}  // namespace itif::text
