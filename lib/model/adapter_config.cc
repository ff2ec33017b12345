#include "model/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "json/json_file.h"

namespace itif::model {
namespace {

using nlohmann::json;

constexpr size_t kMaxNames = 65536;    // of a list
constexpr size_t kMaxNameBytes = 512;  // of a module
constexpr double kMaxAlpha = 1e6;

std::unexpected<Error> unsupported(const std::string& origin, const char* key,
                                   std::string_view must, const json& found) {
  return fail(Code::kUnsupported, fmt::format("{}: '{}' must be {}, found {}", origin, key, must,
                                              json_file::shown(found)));
}

bool is_neutral(const json& value) {
  return value.is_null() || value == json(false) ||
         ((value.is_array() || value.is_object() || value.is_string()) && value.empty());
}

// Settings that no result of a saved adapter depends on.
constexpr std::array kWithoutEffect = {
    "auto_mapping",      "base_model_name_or_path",
    "revision",          "inference_mode",
    "peft_version",      "lora_dropout",
    "exclude_modules",   "layers_to_transform",
    "layers_pattern",    "megatron_core",
    "loftq_config",      "eva_config",
    "qalora_group_size", "ensure_weight_tying",
    "lora_ga_config",    "corda_config",
    "runtime_config",
};
constexpr std::array kParsed = {
    "peft_type",      "task_type",       "r",
    "lora_alpha",     "rank_pattern",    "bias",
    "alpha_pattern",  "use_rslora",      "use_dora",
    "target_modules", "modules_to_save", "init_lora_weights",
};

// PEFT has defaults other than null for these and never writes null. It fails for null as a number,
// as patterns or as `bias`.
constexpr std::array kNeverNull = {
    "r",        "lora_alpha", "rank_pattern",   "alpha_pattern", "use_rslora",
    "use_dora", "bias",       "fan_in_fan_out", "lora_dropout",  "init_lora_weights",
};

Status refuse_nulls(const json& config, const std::string& origin) {
  for (const char* key : kNeverNull) {
    const auto it = config.find(key);
    if (it != config.end() && it->is_null()) return unsupported(origin, key, "set or absent", *it);
  }
  return {};
}

// Every other setting must be neutral: it belongs to a variant of LoRA (use_qalora, lora_bias,
// layer_replication, target_parameters, …), or is newer than this list.
Status refuse_other_settings(const json& config, const std::string& origin) {
  for (const auto& item : config.items()) {
    const auto is_key = [&](const char* key) { return item.key() == key; };
    if (std::ranges::any_of(kWithoutEffect, is_key) || std::ranges::any_of(kParsed, is_key))
      continue;
    if (!is_neutral(item.value()))
      return unsupported(origin, item.key().substr(0, 64).c_str(),
                         "null, false or absent: adapters with this setting are not supported",
                         item.value());
  }
  return {};
}

// Some initialisations change the base's weights, too. PEFT repeats the change when it loads such
// an adapter.
Status check_initialisation(const json& config, const std::string& origin) {
  const auto it = config.find("init_lora_weights");
  if (it == config.end() || it->is_boolean()) return {};
  for (const char* known : {"gaussian", "orthogonal", "eva", "lora_ga"})
    if (*it == known) return {};
  return unsupported(origin, "init_lora_weights",
                     "true, false, gaussian, orthogonal, eva or lora_ga, which leave the base's "
                     "weights as they are (save the adapter again with PEFT's "
                     "path_initial_model_for_weight_conversion)",
                     *it);
}

Result<std::vector<std::string>> get_names(const json& config, const char* key,
                                           const std::string& origin) {
  std::vector<std::string> names;
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return names;
  const auto is_name = [](const json& name) {
    return name.is_string() && !name.get_ref<const std::string&>().empty() &&
           name.get_ref<const std::string&>().size() <= kMaxNameBytes;
  };
  if (!it->is_array() || it->size() > kMaxNames || !std::ranges::all_of(*it, is_name))
    return fail(Code::kInvalidArgument,
                fmt::format("{}: '{}' must be an array of module names, found {}", origin, key,
                            json_file::shown(*it)));
  for (const json& name : *it) names.push_back(name.get<std::string>());
  return names;
}

// Only names, not other regular expressions: "\." may stand for a dot.
Result<std::string> pattern_of(const std::string& text, const char* key,
                               const std::string& origin) {
  std::string pattern;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_dot = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '.';
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_plain = std::isalnum(byte) != 0 || byte == '_' || byte == '.' ||
                          (byte == '^' && i == 0 && text.size() > 1);
    if (text.size() > kMaxNameBytes || (!is_dot && !is_plain))
      return unsupported(origin, key,
                         "an object of module names: other regular expressions are not supported",
                         json(text));
    if (is_dot) ++i;
    pattern += text[i];
  }
  return pattern;
}

template <class T, class Get>
Status get_patterns(const json& config, const char* key, const std::string& origin, const Get& get,
                    ModulePatterns<T>& patterns) {
  const auto it = config.find(key);
  if (it == config.end()) return {};
  if (!it->is_object() || it->size() > kMaxNames)
    return fail(Code::kInvalidArgument, fmt::format("{}: '{}' must be an object, found {}", origin,
                                                    key, json_file::shown(*it)));
  for (const auto& item : it->items()) {
    ITIF_ASSIGN(std::string pattern, pattern_of(item.key(), key, origin));
    if (item.value().is_null()) return unsupported(origin, key, "an object of numbers", *it);
    ITIF_ASSIGN(const T value, get(*it, item.key().c_str(), fmt::format("{}: {}", origin, key)));
    patterns.emplace_back(std::move(pattern), value);
  }
  return {};
}

bool matches(std::string_view pattern, std::string_view module) {
  const bool is_whole = pattern.starts_with('^');
  if (is_whole) pattern.remove_prefix(1);
  if (pattern.size() > module.size()) return false;
  const size_t before = module.size() - pattern.size();
  if (before > 0 && (is_whole || module[before - 1] != '.')) return false;
  for (size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] != '.' && pattern[i] != module[before + i]) return false;
  return true;
}

// PEFT takes the first pattern in the order of the file, which JSON does not define.
template <class T>
Result<T> value_of(const ModulePatterns<T>& patterns, T others, std::string_view module,
                   const char* key, const std::string& origin) {
  const T* value = nullptr;
  for (const auto& [pattern, own] : patterns) {
    if (!matches(pattern, module)) continue;
    if (value != nullptr && *value != own)
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' must have one value for each module, found several for {}",
                              origin, key, module));
    value = &own;
  }
  return value != nullptr ? *value : others;
}

Status parse_bias(const json& config, const std::string& origin, AdapterConfig& out) {
  ITIF_ASSIGN(const std::string bias, json_file::get_string_or(config, "bias", "none", origin));
  if (bias != "none" && bias != "all" && bias != "lora_only")
    return unsupported(origin, "bias", "none, all or lora_only", json(bias));
  out.saves_biases = bias != "none";
  out.saves_all_biases = bias == "all";
  return {};
}

Status parse_targets(const json& config, const std::string& origin, AdapterConfig& out) {
  const auto it = config.find("target_modules");
  if (it != config.end() && it->is_string()) return {};  // "all-linear", or an expression
  ITIF_ASSIGN(out.targets, get_names(config, "target_modules", origin));
  if (!out.targets.empty()) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("{}: 'target_modules' must name at least one module, found {}", origin,
                          it == config.end() ? "none" : json_file::shown(*it)));
}

// PEFT trains and saves a task's head without being told.
void add_saved_heads(AdapterConfig& out) {
  if (out.task == "SEQ_CLS" || out.task == "TOKEN_CLS")
    for (const char* head : {"classifier", "score"}) out.saved_modules.emplace_back(head);
  if (out.task == "QUESTION_ANS") out.saved_modules.emplace_back("qa_outputs");
}

}  // namespace

Result<uint32_t> AdapterConfig::rank_of(std::string_view module, const std::string& origin) const {
  return value_of(ranks, rank, module, "rank_pattern", origin);
}

Result<double> AdapterConfig::scale_of(std::string_view module, uint32_t rank_of_module,
                                       const std::string& origin) const {
  ITIF_ASSIGN(const double own, value_of(alphas, alpha, module, "alpha_pattern", origin));
  return own / (is_rank_stabilized ? std::sqrt(rank_of_module) : rank_of_module);
}

Result<AdapterConfig> parse_adapter_config(const json& config, const std::string& origin) {
  AdapterConfig out;
  ITIF_ASSIGN(const std::string type, json_file::get_string_or(config, "peft_type", "", origin));
  if (type != "LORA")
    return unsupported(origin, "peft_type", "\"LORA\"", config.value("peft_type", json()));
  ITIF_TRY(refuse_nulls(config, origin));
  ITIF_TRY(refuse_other_settings(config, origin));
  ITIF_TRY(check_initialisation(config, origin));
  ITIF_ASSIGN(out.task, json_file::get_string_or(config, "task_type", "", origin));
  const auto get_rank = [](const json& object, const char* key, const std::string& where) {
    return json_file::get_uint(object, key, 1, kMaxAdapterRank, where);
  };
  // PEFT's default is 8.
  const auto get_alpha = [](const json& object, const char* key, const std::string& where) {
    return json_file::get_number_or(object, key, -kMaxAlpha, kMaxAlpha, 8, where);
  };
  ITIF_ASSIGN(out.rank, get_rank(config, "r", origin));
  ITIF_ASSIGN(out.alpha, get_alpha(config, "lora_alpha", origin));
  ITIF_TRY(get_patterns(config, "rank_pattern", origin, get_rank, out.ranks));
  ITIF_TRY(get_patterns(config, "alpha_pattern", origin, get_alpha, out.alphas));
  ITIF_ASSIGN(out.is_rank_stabilized, json_file::get_bool_or(config, "use_rslora", false, origin));
  ITIF_ASSIGN(out.has_magnitudes, json_file::get_bool_or(config, "use_dora", false, origin));
  ITIF_TRY(parse_bias(config, origin, out));
  ITIF_TRY(parse_targets(config, origin, out));
  ITIF_ASSIGN(out.saved_modules, get_names(config, "modules_to_save", origin));
  add_saved_heads(out);
  return out;
}

}  // namespace itif::model
