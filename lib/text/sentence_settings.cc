#include "text/sentence_settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

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

// Arguments for the library's own loaders, which may change any setting of the model.
constexpr const char* kLoaderArguments[] = {
    "model_args",  "model_kwargs",  "tokenizer_args",   "tokenizer_kwargs",
    "config_args", "config_kwargs", "processor_kwargs", "processing_kwargs"};
// Loader arguments that change no result here: the group's dtype replaces a type, and the model's
// own code never runs.
constexpr std::string_view kHarmlessArguments[] = {"attn_implementation", "add_pooling_layer",
                                                   "dtype", "torch_dtype", "trust_remote_code"};

Status refuse_setting(const std::string& path, const std::string& key, const std::string& wanted,
                      const json& found) {
  return fail(Code::kUnsupported,
              fmt::format("{}: '{}' is not implemented: it must be {}, found {}", path, key, wanted,
                          json_file::shown(found)));
}

Status check_loader_arguments(const json& config, const std::string& path) {
  for (const char* key : kLoaderArguments) {
    const auto it = config.find(key);
    if (it == config.end() || it->empty()) continue;
    if (!it->is_object()) return refuse_setting(path, key, "empty", *it);
    for (const auto& [name, value] : it->items())
      if (std::ranges::find(kHarmlessArguments, name) == std::end(kHarmlessArguments))
        return refuse_setting(path, fmt::format("{}.{}", key, name), "absent", value);
  }
  return {};
}

// Texts are read as "query" or "document" only if a request says so, which requests here cannot.
// unpad_inputs changes speed only.
Status check_task(const json& config, bool is_classifier, const std::string& path) {
  const auto check = [&](const json& object, const char* prefix, const char* key,
                         const json& wanted) -> Status {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null() || *it == wanted) return {};
    return refuse_setting(path, std::string(prefix) + key, wanted.dump(), *it);
  };
  if (!is_classifier) ITIF_TRY(check(config, "", "transformer_task", "feature-extraction"));
  ITIF_TRY(check(config, "", "module_output_name", is_classifier ? "scores" : "token_embeddings"));
  ITIF_TRY(check(config, "", "query_expansion", nullptr));
  ITIF_TRY(check(config, "", "query_length", nullptr));
  ITIF_TRY(check(config, "", "document_length", nullptr));
  ITIF_TRY(check(config, "", "tokenizer_name_or_path", nullptr));
  const auto modalities = config.find("modality_config");
  if (modalities == config.end() || modalities->is_null()) return {};
  const auto text = modalities->find("text");
  if (text == modalities->end() || !text->is_object())
    return refuse_setting(path, "modality_config", "an object with 'text'", *modalities);
  // The library then puts each text through the tokenizer's chat template.
  if (const auto message = modalities->find("message"); message != modalities->end())
    return refuse_setting(path, "modality_config.message", "absent", *message);
  ITIF_TRY(check(*text, "modality_config.text.", "method", "forward"));
  return check(*text, "modality_config.text.", "method_output_name",
               is_classifier ? "logits" : "last_hidden_state");
}

}  // namespace

Result<SentenceSettings> read_sentence_settings(const std::string& directory) {
  for (const char* name : kSettingsNames) {
    SentenceSettings settings{.path = directory + "/" + name};
    if (::access(settings.path.c_str(), F_OK) != 0) continue;
    ITIF_ASSIGN(const json config, json_file::read_json_file(settings.path));
    ITIF_TRY(check_loader_arguments(config, settings.path));
    const auto task = config.find("transformer_task");
    settings.is_classifier = task != config.end() && *task == "sequence-classification";
    ITIF_TRY(check_task(config, settings.is_classifier, settings.path));
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
