#include "backbone/encoder_config.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "json/json_file.h"

namespace itif::backbone {
namespace {

using model::BackboneSpec;

// Limits far above any real encoder: products of sizes do not overflow, and a hostile file cannot
// claim all memory.
constexpr uint32_t kMaxLayers = 256;
constexpr uint32_t kMaxHidden = 16384;
constexpr uint32_t kMaxHeads = 512;
constexpr uint32_t kMaxIntermediate = 131072;
constexpr uint32_t kMaxVocab = 4u << 20;
constexpr uint32_t kMaxPositions = 65536;
constexpr uint32_t kMaxTypes = 256;  // token types are u8

Status check_heads(const BackboneSpec& spec, const EncoderKeys& keys, const std::string& origin) {
  if (spec.hidden % spec.heads != 0)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: '{}' must be a multiple of '{}' ({}), found {}", origin,
                            keys.hidden, keys.heads, spec.heads, spec.hidden));
  if (spec.head_size() > kernels::kMaxHeadSize)
    return fail(Code::kUnsupported,
                fmt::format("{}: '{}' / '{}' must be at most {}, found {}", origin, keys.hidden,
                            keys.heads, kernels::kMaxHeadSize, spec.head_size()));
  return {};
}

// Families with keys of their own also accept BERT's, which replace them in transformers.
Status check_aliases(const BackboneSpec& spec, const EncoderKeys& keys,
                     const nlohmann::json& config, const std::string& origin) {
  const EncoderKeys alias;
  for (const auto& [key, own, value] : {std::tuple{alias.layers, keys.layers, spec.layers},
                                        {alias.hidden, keys.hidden, spec.hidden},
                                        {alias.heads, keys.heads, spec.heads}}) {
    ITIF_ASSIGN(const uint32_t found,
                json_file::get_uint_or(config, key, 0, UINT32_MAX, value, origin));
    if (found != value)
      return fail(Code::kUnsupported, fmt::format("{}: '{}' must be equal to '{}' ({}), found {}",
                                                  origin, key, own, value, found));
  }
  return {};
}

}  // namespace

Result<BackboneSpec> parse_blocks(const nlohmann::json& config, const std::string& origin,
                                  const char* family, const EncoderKeys& keys) {
  using json_file::get_uint;
  BackboneSpec spec;
  spec.family = family;
  ITIF_ASSIGN(spec.layers, get_uint(config, keys.layers, 1, kMaxLayers, origin));
  ITIF_ASSIGN(spec.hidden, get_uint(config, keys.hidden, 1, kMaxHidden, origin));
  ITIF_ASSIGN(spec.heads, get_uint(config, keys.heads, 1, kMaxHeads, origin));
  ITIF_ASSIGN(spec.intermediate, get_uint(config, keys.intermediate, 1, kMaxIntermediate, origin));
  ITIF_ASSIGN(const double epsilon,
              json_file::get_number_or(config, "layer_norm_eps", 0, 1, 1e-12, origin));
  spec.layer_norm_eps = static_cast<float>(epsilon);
  ITIF_TRY(check_aliases(spec, keys, config, origin));
  ITIF_TRY(check_heads(spec, keys, origin));
  ITIF_ASSIGN(const std::string activation,
              json_file::get_string_or(config, keys.activation, keys.default_activation, origin));
  ITIF_ASSIGN(spec.activation, parse_activation(activation, origin, keys.activation));
  return spec;
}

nlohmann::ordered_json blocks_config(const BackboneSpec& spec, const EncoderKeys& keys) {
  return {
      {"model_type", spec.family},
      {keys.hidden, spec.hidden},
      {keys.layers, spec.layers},
      {keys.heads, spec.heads},
      {keys.intermediate, spec.intermediate},
      {keys.activation, spec.activation == kernels::Activation::kGeluTanh
                            ? "gelu_new"
                            : model::activation_name(spec.activation)},
      {"layer_norm_eps", std::strtod(fmt::format("{:g}", spec.layer_norm_eps).c_str(), nullptr)},
  };
}

Result<BackboneSpec> parse_encoder(const nlohmann::json& config, const std::string& origin,
                                   const char* family, const EncoderKeys& keys) {
  using json_file::get_uint, json_file::get_uint_or;
  ITIF_ASSIGN(BackboneSpec spec, parse_blocks(config, origin, family, keys));
  ITIF_ASSIGN(spec.vocab, get_uint(config, "vocab_size", 1, kMaxVocab, origin));
  ITIF_ASSIGN(spec.max_positions,
              get_uint(config, "max_position_embeddings", 1, kMaxPositions, origin));
  ITIF_ASSIGN(spec.type_vocab, get_uint_or(config, "type_vocab_size", 1, kMaxTypes, 2, origin));

  ITIF_ASSIGN(const std::string position,
              json_file::get_string_or(config, "position_embedding_type", "absolute", origin));
  if (keys.reads_position_type && position != "absolute")
    return fail(Code::kUnsupported,
                fmt::format("{}: 'position_embedding_type' must be \"absolute\", found {}", origin,
                            json_file::shown(nlohmann::json(position))));
  if (!keys.reads_decoder_flags) return spec;
  for (const char* key : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    ITIF_ASSIGN(const bool set, json_file::get_bool_or(config, key, false, origin));
    if (set)
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' must be false (encoders only), found true", origin, key));
  }
  return spec;
}

nlohmann::ordered_json encoder_config(const BackboneSpec& spec, const EncoderKeys& keys) {
  nlohmann::ordered_json config = blocks_config(spec, keys);
  config["max_position_embeddings"] = spec.max_positions;
  config["vocab_size"] = spec.vocab;
  config["position_embedding_type"] = "absolute";
  if (spec.type_vocab > 0) config["type_vocab_size"] = spec.type_vocab;
  return config;
}

Result<kernels::Activation> parse_activation(const std::string& name, const std::string& origin,
                                             const char* key) {
  using kernels::Activation;
  if (name == "gelu" || name == "gelu_python") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast" ||
      name == "gelu_accurate")
    return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  if (name == "tanh") return Activation::kTanh;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  return fail(Code::kUnsupported,
              fmt::format("{}: '{}' must be gelu, gelu_new, gelu_pytorch_tanh, relu, tanh, silu or "
                          "swish, found {}",
                          origin, key, json_file::shown(nlohmann::json(name))));
}

}  // namespace itif::backbone
