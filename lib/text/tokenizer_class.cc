#include "text/tokenizer_class.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/json_file.h"

namespace itif::text {
namespace {

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

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Empty: not set, or there is no such file.
Result<std::string> class_of(const std::string& path) {
  const auto document = json_file::read_json_file(path);
  if (!document && document.error().code == Code::kNotFound) return std::string();
  if (!document) return std::unexpected(document.error());
  ITIF_ASSIGN(std::string name, json_file::get_string_or(*document, "tokenizer_class", "", path));
  if (name.ends_with("Fast") && !is_among(kJsonClasses, name)) name.resize(name.size() - 4);
  return name;
}

}  // namespace

Result<std::string> read_tokenizer_class(const std::string& directory) {
  ITIF_ASSIGN(std::string name, class_of(directory + "/tokenizer_config.json"));
  if (!name.empty()) return name;
  auto model = class_of(directory + "/config.json");
  if (!model && model.error().code == Code::kCorrupt) return std::string();  // reported elsewhere
  return model;
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
              fmt::format("{}: 'tokenizer_class' must be {} for these files, found {}", directory,
                          accepted.front(), json_file::shown(nlohmann::json(name))));
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
