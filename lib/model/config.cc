#include "model/config.h"

#include <fmt/format.h>

#include "base/check.h"
#include "model/json_file.h"
#include "model/model_dir.h"

namespace itif::model {
namespace {

// Bounds of what a config may claim, far above any real encoder: sizes multiply without overflow,
// and a hostile file cannot make us reserve the machine.
constexpr uint32_t kMaxLayers = 256;
constexpr uint32_t kMaxHidden = 16384;
constexpr uint32_t kMaxHeads = 512;
constexpr uint32_t kMaxIntermediate = 131072;
constexpr uint32_t kMaxVocab = 4u << 20;
constexpr uint32_t kMaxPositions = 65536;
constexpr uint32_t kMaxTypes = 256;  // token types are u8

Result<BackboneSpec> parse_bert(const nlohmann::json& config, const std::string& origin) {
  BackboneSpec spec;
  spec.family = "bert";
  ITIF_ASSIGN(spec.layers, get_uint(config, "num_hidden_layers", 1, kMaxLayers, origin));
  ITIF_ASSIGN(spec.hidden, get_uint(config, "hidden_size", 1, kMaxHidden, origin));
  ITIF_ASSIGN(spec.heads, get_uint(config, "num_attention_heads", 1, kMaxHeads, origin));
  ITIF_ASSIGN(spec.intermediate,
              get_uint(config, "intermediate_size", 1, kMaxIntermediate, origin));
  ITIF_ASSIGN(spec.vocab, get_uint(config, "vocab_size", 1, kMaxVocab, origin));
  ITIF_ASSIGN(spec.max_positions,
              get_uint(config, "max_position_embeddings", 1, kMaxPositions, origin));
  ITIF_ASSIGN(spec.type_vocab, get_uint_or(config, "type_vocab_size", 1, kMaxTypes, 2, origin));
  ITIF_ASSIGN(spec.pad_id, get_uint_or(config, "pad_token_id", 0, kMaxVocab, 0, origin));
  ITIF_ASSIGN(const double epsilon, get_number_or(config, "layer_norm_eps", 0, 1, 1e-12, origin));
  spec.layer_norm_eps = static_cast<float>(epsilon);
  if (spec.hidden % spec.heads != 0)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: 'hidden_size' must be a multiple of 'num_attention_heads' ({}), "
                            "found {}",
                            origin, spec.heads, spec.hidden));
  if (spec.head_size() > kernels::kMaxHeadSize)
    return fail(
        Code::kUnsupported,
        fmt::format("{}: 'hidden_size' / 'num_attention_heads' must be at most {}, found {}",
                    origin, kernels::kMaxHeadSize, spec.head_size()));
  ITIF_ASSIGN(const std::string act, get_string_or(config, "hidden_act", "gelu", origin));
  ITIF_ASSIGN(spec.activation, parse_activation(act, origin));

  ITIF_ASSIGN(const std::string position,
              get_string_or(config, "position_embedding_type", "absolute", origin));
  if (position != "absolute")
    return fail(Code::kUnsupported,
                fmt::format("{}: 'position_embedding_type' must be \"absolute\", found {}", origin,
                            shown(nlohmann::json(position))));
  for (const char* key : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    ITIF_ASSIGN(const bool set, get_bool_or(config, key, false, origin));
    if (set)
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' must be false (encoders only), found true", origin, key));
  }
  return spec;
}

struct Family {
  const char* model_type;
  const char* class_prefix;
  Result<BackboneSpec> (*parse)(const nlohmann::json&, const std::string&);
};
constexpr Family kFamilies[] = {
    {"bert", "Bert", parse_bert},
};

}  // namespace

std::string_view class_prefix(std::string_view family) {
  for (const Family& row : kFamilies)
    if (family == row.model_type) return row.class_prefix;
  CHECK(false);  // not a family of the table
  return {};
}

Result<kernels::Activation> parse_activation(const std::string& name, const std::string& origin) {
  using kernels::Activation;
  if (name == "gelu" || name == "gelu_python") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast" ||
      name == "gelu_accurate")
    return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  if (name == "tanh") return Activation::kTanh;
  return fail(
      Code::kUnsupported,
      fmt::format("{}: 'hidden_act' must be gelu, gelu_new, gelu_pytorch_tanh, relu or tanh, "
                  "found {}",
                  origin, shown(nlohmann::json(name))));
}

Result<BackboneSpec> parse_backbone_spec(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(const std::string type, get_string_or(config, "model_type", "", origin));
  std::string known;
  for (const Family& family : kFamilies) {
    if (type == family.model_type) return family.parse(config, origin);
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return fail(Code::kUnsupported,
              fmt::format("{}: 'model_type' must be one of {}, found {}", origin, known,
                          type.empty() ? "nothing" : shown(nlohmann::json(type))));
}

Result<BackboneSpec> read_backbone_spec(const std::string& directory) {
  const std::string path = directory + "/config.json";
  ITIF_ASSIGN(const nlohmann::json config, read_json_file(path));
  return parse_backbone_spec(config, path);
}

}  // namespace itif::model
