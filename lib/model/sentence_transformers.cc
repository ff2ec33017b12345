#include "model/sentence_transformers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "json/json_file.h"
#include "text/sentence_settings.h"

namespace itif::model {
namespace {

constexpr uint32_t kMaxDenseSize = 16384;

struct Mode {
  const char* key;   // a boolean in 1_Pooling/config.json
  const char* name;  // the value of 'pooling_mode' in later versions of that file
  std::optional<kernels::Pooling> pooling;
};
constexpr Mode kModes[] = {
    {"pooling_mode_cls_token", "cls", kernels::Pooling::kFirst},
    {"pooling_mode_mean_tokens", "mean", kernels::Pooling::kMean},
    {"pooling_mode_max_tokens", "max", kernels::Pooling::kMax},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens",
     kernels::Pooling::kMeanSqrtLength},
    {"pooling_mode_lasttoken", "lasttoken", kernels::Pooling::kLast},
    {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
};

Status read_pooling(const std::string& path, const BackboneSpec& backbone, HeadSpec& head) {
  ITIF_ASSIGN(const nlohmann::json config, json_file::read_json_file(path));
  ITIF_ASSIGN(const uint32_t size, json_file::get_uint_or(config, "word_embedding_dimension", 1,
                                                          UINT32_MAX, backbone.hidden, path));
  if (size != backbone.hidden)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: 'word_embedding_dimension' must be the hidden size {}, found {}",
                            path, backbone.hidden, size));
  ITIF_ASSIGN(const std::string named, json_file::get_string_or(config, "pooling_mode", "", path));
  const Mode* chosen = nullptr;
  for (const Mode& mode : kModes) {
    // The library ignores the booleans if the file names a mode.
    bool set = named == mode.name;
    if (named.empty()) {
      ITIF_ASSIGN(set, json_file::get_bool_or(config, mode.key, false, path));
    }
    if (!set) continue;
    if (!mode.pooling)
      return fail(Code::kUnsupported, fmt::format("{}: '{}' is not supported", path, mode.key));
    if (chosen)
      return fail(Code::kUnsupported,
                  fmt::format("{}: one pooling mode is supported, found '{}' and '{}'", path,
                              chosen->key, mode.key));
    chosen = &mode;
  }
  if (!chosen)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: expected a pooling mode, found {}", path,
                            named.empty() ? "none" : json_file::shown(nlohmann::json(named))));
  head.pooling = *chosen->pooling;
  return {};
}

Result<kernels::Activation> parse_dense_activation(const std::string& name,
                                                   const std::string& path) {
  using kernels::Activation;
  // The library imports names that begin with "torch." only, and replaces others by Tanh.
  for (const auto& [suffix, activation] : {std::pair{".Identity", Activation::kNone},
                                           {".Tanh", Activation::kTanh},
                                           {".ReLU", Activation::kRelu},
                                           {".GELU", Activation::kGelu}})
    if (name.starts_with("torch.nn.") && name.ends_with(suffix)) return activation;
  return fail(Code::kUnsupported,
              fmt::format("{}: 'activation_function' must be torch.nn's Identity, Tanh, ReLU or "
                          "GELU, found {}",
                          path, json_file::shown(nlohmann::json(name))));
}

// sentence-transformers 6 lets a module read and write other features than the embedding.
Status check_features(const nlohmann::json& config, const std::string& path) {
  for (const char* key : {"module_input_name", "module_output_name"}) {
    ITIF_ASSIGN(const std::string name,
                json_file::get_string_or(config, key, "sentence_embedding", path));
    if (name != "sentence_embedding")
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' must be \"sentence_embedding\", found {}", path, key,
                              json_file::shown(nlohmann::json(name))));
  }
  return {};
}

// Older versions write no configuration for Normalize.
Status check_normalize(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return {};
  ITIF_ASSIGN(const nlohmann::json config, json_file::read_json_file(path));
  return check_features(config, path);
}

Result<LinearSpec> read_dense(const std::string& module_directory, uint32_t in_size) {
  const std::string path = module_directory + "/config.json";
  ITIF_ASSIGN(const nlohmann::json config, json_file::read_json_file(path));
  LinearSpec dense;
  dense.directory = module_directory;
  dense.weight = "linear.weight";
  ITIF_ASSIGN(dense.k, json_file::get_uint(config, "in_features", 1, kMaxDenseSize, path));
  ITIF_ASSIGN(dense.n, json_file::get_uint(config, "out_features", 1, kMaxDenseSize, path));
  if (dense.k != in_size)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: 'in_features' must be {}, the size of its input, found {}", path,
                            in_size, dense.k));
  ITIF_ASSIGN(const bool bias, json_file::get_bool_or_null(config, "bias", true, path));
  if (bias) dense.bias = "linear.bias";
  ITIF_ASSIGN(const std::string activation,
              json_file::get_string_or(config, "activation_function",
                                       "torch.nn.modules.activation.Tanh", path));
  ITIF_ASSIGN(dense.activation, parse_dense_activation(activation, path));
  ITIF_TRY(check_features(config, path));
  ITIF_ASSIGN(const bool residual, json_file::get_bool_or(config, "use_residual", false, path));
  if (residual)
    return fail(Code::kUnsupported,
                fmt::format("{}: 'use_residual' must be false, found true", path));
  return dense;
}

// A module's folder must be directly in the model's directory: "1_Pooling".
bool is_plain_folder(const std::string& path) {
  return !path.empty() && path != "." && path != ".." && path.find('/') == std::string::npos &&
         path.find('\0') == std::string::npos;
}

// Returns an empty object if the file does not exist.
Result<nlohmann::json> read_optional_json(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return nlohmann::json::object();
  return json_file::read_json_file(path);
}

// The library replaces the modules of its other kinds of model.
Result<SentenceModel> read_model_type(const nlohmann::json& config, const std::string& path) {
  ITIF_ASSIGN(const std::string type,
              json_file::get_string_or(config, "model_type", "SentenceTransformer", path));
  if (type == "SentenceTransformer") return SentenceModel::kEmbedding;
  if (type == "CrossEncoder") return SentenceModel::kCrossEncoder;
  return fail(Code::kUnsupported,
              fmt::format("{}: 'model_type' must be \"SentenceTransformer\" or \"CrossEncoder\", "
                          "found {}",
                          path, json_file::shown(nlohmann::json(type))));
}

// encode() and predict() would put the default prompt before each text, and encode() would cut each
// embedding to truncate_dim.
Status check_encoding(const nlohmann::json& config, const std::string& path) {
  const auto dimensions = config.find("truncate_dim");
  if (dimensions != config.end() && !dimensions->is_null())
    return fail(Code::kUnsupported, fmt::format("{}: 'truncate_dim' must be null, found {}", path,
                                                json_file::shown(*dimensions)));
  const auto name = config.find("default_prompt_name");
  if (name == config.end() || name->is_null()) return {};
  const auto prompts = config.find("prompts");
  if (name->is_string() && prompts != config.end() && prompts->is_object()) {
    const auto prompt = prompts->find(name->get<std::string>());
    if (prompt != prompts->end() && *prompt == "") return {};
  }
  return fail(
      Code::kUnsupported,
      fmt::format("{}: 'default_prompt_name' must be null, because prompts before texts are "
                  "not supported, found {}",
                  path, json_file::shown(*name)));
}

Status check_task(const text::SentenceSettings& settings, bool is_classifier) {
  if (settings.is_classifier == is_classifier) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: 'transformer_task' must be \"{}\" in a {}", settings.path,
                          is_classifier ? "sequence-classification" : "feature-extraction",
                          is_classifier ? "CrossEncoder" : "SentenceTransformer"));
}

// A CrossEncoder's only module is its transformer, with the classifier.
Status check_cross_encoder(const nlohmann::json& modules, const std::string& path) {
  const nlohmann::json& module = modules[0];
  if (module.is_object() && modules.size() == 1) {
    ITIF_ASSIGN(const std::string type, json_file::get_string_or(module, "type", "", path));
    ITIF_ASSIGN(const std::string folder, json_file::get_string_or(module, "path", "", path));
    if (type.starts_with("sentence_transformers.") && type.ends_with(".Transformer") &&
        folder.empty())
      return {};
  }
  return fail(
      Code::kUnsupported,
      fmt::format("{}: a CrossEncoder must have one module, a Transformer with its files in "
                  "the model's own directory, found {}",
                  path, json_file::shown(modules)));
}

}  // namespace

Status read_score_activation(const std::string& directory, const nlohmann::json& config,
                             HeadSpec& head) {
  const std::string path = directory + "/config_sentence_transformers.json";
  ITIF_ASSIGN(const nlohmann::json settings, read_optional_json(path));
  // The library imports names that begin with "torch." only. Others count as not set.
  std::string origin, name;
  const auto read = [&](const nlohmann::json& object, const char* key, const std::string& file) {
    const auto it = object.find(key);
    if (it == object.end() || !it->is_string()) return;
    if (!it->get_ref<const std::string&>().starts_with("torch.")) return;
    name = it->get<std::string>();
    origin = fmt::format("{}: '{}'", file, key);
  };
  read(settings, "activation_fn", path);
  if (name.empty()) {
    const auto own = config.find("sentence_transformers");
    if (own != config.end() && own->is_object() && own->contains("activation_fn"))
      read(*own, "activation_fn", directory + "/config.json");
    else
      read(config, "sbert_ce_default_activation_function", directory + "/config.json");
  }
  if (!name.empty() && !name.ends_with(".Sigmoid") && !name.ends_with(".Identity"))
    return fail(Code::kUnsupported,
                fmt::format("{} must be torch.nn's Sigmoid or Identity, found {}", origin,
                            json_file::shown(nlohmann::json(name))));
  head.has_sigmoid_logits = name.empty() ? head.labels.size() == 1 : name.ends_with(".Sigmoid");
  // Classes would be probabilities of probabilities.
  if (head.has_sigmoid_logits) head.problem = Problem::kRegression;
  return {};
}

Result<SentenceModel> read_sentence_transformers(const std::string& directory,
                                                 const BackboneSpec& backbone, HeadSpec& head) {
  const std::string path = directory + "/modules.json";
  if (::access(path.c_str(), F_OK) != 0) return SentenceModel::kNone;
  ITIF_ASSIGN(const std::string text,
              json_file::read_text_file(path, json_file::kMaxJsonFileBytes));
  ITIF_ASSIGN(const nlohmann::json modules, json_file::parse_json(text, path));
  if (!modules.is_array() || modules.empty())
    return fail(Code::kCorrupt, fmt::format("{}: expected an array of modules, found {}", path,
                                            json_file::shown(modules)));

  const std::string settings_path = directory + "/config_sentence_transformers.json";
  ITIF_ASSIGN(const nlohmann::json config, read_optional_json(settings_path));
  ITIF_ASSIGN(const SentenceModel kind, read_model_type(config, settings_path));
  ITIF_TRY(check_encoding(config, settings_path));
  ITIF_ASSIGN(const text::SentenceSettings settings, text::read_sentence_settings(directory));
  head.max_text_tokens = settings.max_seq_length;
  const bool is_classifier = kind == SentenceModel::kCrossEncoder;
  if (is_classifier) {
    ITIF_TRY(check_cross_encoder(modules, path));
    ITIF_TRY(check_task(settings, is_classifier));
    return kind;
  }
  head.kind = HeadKind::kEmbedding;
  head.normalize = false;
  bool has_transformer = false, has_pooling = false;
  uint32_t size = backbone.hidden;
  for (const nlohmann::json& module : modules) {
    if (!module.is_object())
      return fail(Code::kCorrupt,
                  fmt::format("{}: expected modules, found {}", path, json_file::shown(module)));
    ITIF_ASSIGN(const std::string type, json_file::get_string_or(module, "type", "", path));
    ITIF_ASSIGN(const std::string folder, json_file::get_string_or(module, "path", "", path));
    const auto refused = [&](const std::string& why) {
      return fail(Code::kUnsupported, fmt::format("{}: module {}: {}", path,
                                                  json_file::shown(nlohmann::json(type)), why));
    };
    if (!type.starts_with("sentence_transformers."))
      return refused("expected a class of sentence_transformers");
    if (type.ends_with(".Transformer")) {
      if (has_transformer || !folder.empty())
        return refused("expected once, with its files in the model's own directory");
      has_transformer = true;
      continue;
    }
    if (!has_transformer) return refused("expected a Transformer before it");
    if (head.normalize) return refused("expected nothing after Normalize");
    if (type.ends_with(".Normalize")) {
      if (!has_pooling) return refused("expected a Pooling before it");
      if (is_plain_folder(folder))
        ITIF_TRY(check_normalize(directory + "/" + folder + "/config.json"));
      head.normalize = true;
      continue;
    }
    if (!is_plain_folder(folder))
      return refused("expected a 'path' in the model's directory, found " +
                     json_file::shown(nlohmann::json(folder)));
    if (type.ends_with(".Pooling") && !has_pooling) {
      ITIF_TRY(read_pooling(directory + "/" + folder + "/config.json", backbone, head));
      has_pooling = true;
    } else if (type.ends_with(".Dense") && has_pooling) {
      ITIF_ASSIGN(LinearSpec dense, read_dense(directory + "/" + folder, size));
      size = dense.n;
      head.dense.push_back(std::move(dense));
    } else {
      return refused("supported are Transformer, Pooling, Dense, Normalize, in this order");
    }
  }
  if (!has_pooling)
    return fail(Code::kUnsupported, fmt::format("{}: expected a Pooling module, found none", path));

  ITIF_TRY(check_task(settings, is_classifier));
  return kind;
}

}  // namespace itif::model
