#include "text/tokenizer_class.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "json/json_file.h"

namespace itif::text {
namespace {

using nlohmann::json;

// Names of one class in transformers 5, or of subclasses that add nothing.
constexpr std::string_view kBertClasses[] = {"BertTokenizer",
                                             "DistilBertTokenizer",
                                             "ElectraTokenizer",
                                             "MobileBertTokenizer",
                                             "LayoutLMTokenizer",
                                             "LxmertTokenizer",
                                             "SqueezeBertTokenizer",
                                             "ConvBertTokenizer",
                                             "DPRContextEncoderTokenizer",
                                             "DPRQuestionEncoderTokenizer",
                                             "DPRReaderTokenizer"};
// They pass do_lower_case to no step, so that all texts are lower-cased.
constexpr std::string_view kDprClasses[] = {"DPRContextEncoderTokenizer",
                                            "DPRQuestionEncoderTokenizer", "DPRReaderTokenizer"};
constexpr std::string_view kRobertaClasses[] = {"RobertaTokenizer", "BartTokenizer", "LEDTokenizer",
                                                "LongformerTokenizer", "MvpTokenizer"};
// The last is a class that transformers 5 lacks.
constexpr std::string_view kJsonClasses[] = {"PreTrainedTokenizerFast", "PreTrainedTokenizer",
                                             "TokenizersBackend", "PythonBackend",
                                             "RetriBertTokenizer"};

// The class of a model type, for directories that name none. Source: TOKENIZER_MAPPING_NAMES of
// transformers.
constexpr std::pair<std::string_view, std::string_view> kClassesOfModelTypes[] = {
    {"albert", "AlbertTokenizer"},   {"bert", "BertTokenizer"},
    {"distilbert", "BertTokenizer"}, {"marian", "MarianTokenizer"},
    {"roberta", "RobertaTokenizer"}, {"xlm-roberta", "XLMRobertaTokenizer"},
};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Result<json> read_or_empty(const std::string& path) {
  auto document = json_file::read_json_file(path);
  if (!document && document.error().code == Code::kNotFound) return json::object();
  return document;
}

// Empty: not set.
Result<std::string> class_of(const json& document, const std::string& path) {
  ITIF_ASSIGN(std::string name, json_file::get_string_or(document, "tokenizer_class", "", path));
  if (name.ends_with("Fast") && !is_among(kJsonClasses, name)) name.resize(name.size() - 4);
  return name;
}

}  // namespace

Result<std::string> read_tokenizer_class(const std::string& directory) {
  const std::string settings_path = directory + "/tokenizer_config.json";
  ITIF_ASSIGN(const json settings, read_or_empty(settings_path));
  ITIF_ASSIGN(std::string name, class_of(settings, settings_path));
  if (!name.empty()) return name;
  const std::string path = directory + "/config.json";
  const auto model = read_or_empty(path);
  if (!model && model.error().code == Code::kCorrupt) return std::string();  // reported elsewhere
  if (!model) return std::unexpected(model.error());
  ITIF_ASSIGN(name, class_of(*model, path));
  if (!name.empty()) return name;
  const auto type = model->find("model_type");
  for (const auto& [model_type, class_name] : kClassesOfModelTypes)
    if (type != model->end() && *type == model_type) return std::string(class_name);
  return name;
}

bool is_dpr_class(std::string_view name) {
  return is_among(kDprClasses, name);
}

BertSteps steps_of_bert_class(std::string_view name) {
  if (!is_among(kBertClasses, name)) return BertSteps::kFile;
  return name == "ConvBertTokenizer" ? BertSteps::kFileWithFrame : BertSteps::kSettings;
}

bool is_roberta_class(std::string_view name) {
  return is_among(kRobertaClasses, name);
}

bool follows_tokenizer_json(const std::string& directory, std::string_view name) {
  return is_among(kJsonClasses, name) &&
         ::access((directory + "/tokenizer.json").c_str(), F_OK) == 0;
}

Status check_tokenizer_class(const std::string& directory, const std::string& name,
                             std::span<const std::string_view> accepted) {
  if (name.empty() || is_among(accepted, name)) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: 'tokenizer_class' must be {} for these files, found {} in "
                          "tokenizer_config.json or config.json, or as the class of 'model_type'",
                          directory, accepted.front(), json_file::shown(json(name))));
}

Status check_bert_class(const std::string& directory, const std::string& name) {
  if (follows_tokenizer_json(directory, name)) return {};
  return check_tokenizer_class(directory, name, kBertClasses);
}

Status check_roberta_class(const std::string& directory, const std::string& name) {
  if (follows_tokenizer_json(directory, name)) return {};
  return check_tokenizer_class(directory, name, kRobertaClasses);
}

}  // namespace itif::text
