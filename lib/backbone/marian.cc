// Marian translation models: post-LayerNorm encoder and decoder, sinusoidal positions, and one
// embedding for source, target and output.
// Source: Junczys-Dowmunt et al., "Marian: Fast Neural Machine Translation in C++", 2018; tensor
// names and order of operations as in transformers' MarianMTModel.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "backbone/encoder_config.h"
#include "backbone/marian_decoder.h"
#include "backbone/marian_tensors.h"
#include "json/json_file.h"

namespace itif::backbone::marian {
namespace {

using model::BackboneSpec;

constexpr EncoderKeys kKeys = {.layers = "encoder_layers",
                               .hidden = "d_model",
                               .heads = "encoder_attention_heads",
                               .intermediate = "encoder_ffn_dim",
                               .activation = "activation_function",
                               .reads_position_type = false,
                               .reads_decoder_flags = false};

constexpr model::Architecture kArchitectures[] = {
    {.name = "MarianMTModel", .kind = model::HeadKind::kGeneration},
};

Preset preset(std::string_view name, uint32_t layers, uint32_t hidden, uint32_t heads,
              uint32_t vocab) {
  return {name,
          {.family = "marian",
           .layers = layers,
           .hidden = hidden,
           .heads = heads,
           .intermediate = 4 * hidden,
           .activation = kernels::Activation::kSilu,
           .layer_norm_eps = 1e-5f,
           .vocab = vocab,
           .max_positions = 512,
           .own = {{marian::kLayers, uint64_t{layers}},
                   {marian::kHeads, uint64_t{heads}},
                   {marian::kIntermediate, uint64_t{4} * hidden},
                   {marian::kScaleEmbedding, uint64_t{1}}}}};
}

// transformers reads only these keys of a Marian layout. Published configurations carry others
// (normalize_before, static_position_embeddings), which change nothing there or here.
Status refuse_other_layouts(const nlohmann::json& config, const std::string& origin,
                            uint32_t vocab) {
  const std::pair<const char*, bool> flags[] = {{"is_encoder_decoder", true},
                                                {"share_encoder_decoder_embeddings", true},
                                                {"tie_word_embeddings", true}};
  for (const auto& [key, wanted] : flags) {
    ITIF_ASSIGN(const bool found, json_file::get_set_bool_or(config, key, wanted, origin));
    if (found != wanted)
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' must be {}, found {}", origin, key, wanted, found));
  }
  ITIF_ASSIGN(const uint32_t decoder_vocab,
              json_file::get_uint_or(config, "decoder_vocab_size", 1, UINT32_MAX, vocab, origin));
  if (decoder_vocab != vocab)
    return fail(Code::kUnsupported,
                fmt::format("{}: 'decoder_vocab_size' must be 'vocab_size' ({}), "
                            "found {}",
                            origin, vocab, decoder_vocab));
  return {};
}

Result<BackboneSpec> parse(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(BackboneSpec spec, parse_encoder(config, origin, "marian", kKeys));
  ITIF_TRY(refuse_other_layouts(config, origin, spec.vocab));
  spec.type_vocab = 0;
  spec.layer_norm_eps = 1e-5f;  // torch's default; transformers' code sets no other
  using json_file::get_uint;
  ITIF_ASSIGN(const uint64_t layers, get_uint(config, marian::kLayers, 1, 256, origin));
  ITIF_ASSIGN(const uint64_t heads, get_uint(config, marian::kHeads, 1, 512, origin));
  ITIF_ASSIGN(const uint64_t intermediate,
              get_uint(config, marian::kIntermediate, 1, 131072, origin));
  ITIF_ASSIGN(const bool scale,
              json_file::get_set_bool_or(config, marian::kScaleEmbedding, false, origin));
  if (spec.hidden % heads != 0 || spec.hidden / heads > kernels::kMaxHeadSize)
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: '{}' must divide 'd_model' ({}) into heads of at most {}, found {}",
                    origin, marian::kHeads, spec.hidden, kernels::kMaxHeadSize, heads));
  spec.own = {{marian::kLayers, layers},
              {marian::kHeads, heads},
              {marian::kIntermediate, intermediate},
              {marian::kScaleEmbedding, uint64_t{scale}}};
  return spec;
}

nlohmann::ordered_json config(const BackboneSpec& spec) {
  nlohmann::ordered_json config = encoder_config(spec, kKeys);
  for (const char* key : {"layer_norm_eps", "position_embedding_type"}) config.erase(key);
  for (const char* key : {marian::kLayers, marian::kHeads, marian::kIntermediate})
    config[key] = spec.number(key);
  config[marian::kScaleEmbedding] = spec.number(marian::kScaleEmbedding) != 0;
  config["num_hidden_layers"] = spec.layers;
  config["decoder_vocab_size"] = spec.vocab;
  config["is_encoder_decoder"] = true;
  config["share_encoder_decoder_embeddings"] = true;
  config["tie_word_embeddings"] = true;
  // As in the published models, the last id is both the padding and the decoder's first token.
  config["pad_token_id"] = spec.vocab - 1;
  config["decoder_start_token_id"] = spec.vocab - 1;
  config["eos_token_id"] = 0;
  config["forced_eos_token_id"] = 0;
  return config;
}

}  // namespace

const Family& family() {
  static const Family family = {
      .model_type = "marian",
      .heads = {.prefix = "model", .pooler = "", .architectures = kArchitectures},
      .presets = {preset("marian", 6, 512, 8, 58101), preset("marian-tiny", 2, 128, 4, 4000)},
      .parse = parse,
      .config = config,
      .weight_kinds = marian::weight_kinds,
      .check_tensors = marian::check_tensors,
      .gemms = marian::gemms,
      .make = nullptr,
      .make_decoder = marian::make_decoder};
  return family;
}

}  // namespace itif::backbone::marian
