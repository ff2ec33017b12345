#include "model/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "json/json_file.h"

namespace itif::model {
namespace {

using nlohmann::json;

constexpr size_t kMaxBadWords = 4096;
constexpr size_t kMaxBadWordTokens = 32;

// Settings that would change the output, each with its neutral value. null and an absent key are
// neutral, too.
struct Neutral {
  const char* key;
  json value;
  bool accepts_empty_list = false;  // names no token or word
};
const std::vector<Neutral>& neutral_settings() {
  static const std::vector<Neutral> settings = {
      {"do_sample", false},
      {"num_beam_groups", 1},
      {"diversity_penalty", 0.0},
      {"repetition_penalty", 1.0},
      {"encoder_repetition_penalty", 1.0},
      {"no_repeat_ngram_size", 0},
      {"encoder_no_repeat_ngram_size", 0},
      {"min_length", 0},
      {"min_new_tokens", 0},
      {"num_return_sequences", 1},
      {"remove_invalid_values", false},
      {"guidance_scale", 1.0},
      {"penalty_alpha", 0.0},
      {"max_time", nullptr},
      {"force_words_ids", nullptr, true},
      {"constraints", nullptr},
      {"sequence_bias", nullptr},
      {"exponential_decay_length_penalty", nullptr},
      {"suppress_tokens", nullptr, true},
      {"begin_suppress_tokens", nullptr, true},
      {"forced_decoder_ids", nullptr, true},
      {"stop_strings", nullptr, true},
      {"watermarking_config", nullptr},
      {"dola_layers", nullptr},
      {"token_healing", false},
      {"is_assistant", false},
  };
  return settings;
}

Status refuse_unimplemented(const json& object, const std::string& origin) {
  for (const Neutral& setting : neutral_settings()) {
    const auto it = object.find(setting.key);
    if (it == object.end() || it->is_null() || *it == setting.value) continue;
    if (setting.accepts_empty_list && it->is_array() && it->empty()) continue;
    return fail(Code::kUnsupported,
                fmt::format("{}: '{}' is not implemented: it must be {}, found {}", origin,
                            setting.key, setting.value.dump(), json_file::shown(*it)));
  }
  // The other caches differ in memory and speed only.
  if (const auto it = object.find("cache_implementation"); it != object.end() && *it == "quantized")
    return fail(Code::kUnsupported,
                fmt::format("{}: 'cache_implementation' must not be \"quantized\": keys and values "
                            "are kept as they are",
                            origin));
  return {};
}

Result<int32_t> token_of(const json& value, const char* key, const std::string& origin,
                         const BackboneSpec& backbone) {
  if (value.is_number_integer() && value.get<int64_t>() >= 0 &&
      value.get<uint64_t>() < backbone.vocab)
    return value.get<int32_t>();
  return fail(Code::kInvalidArgument,
              fmt::format("{}: '{}' must be a token id from 0 to {}, found {}", origin, key,
                          backbone.vocab - 1, json_file::shown(value)));
}

// Reads one id, an array of ids, or none.
Result<std::vector<int32_t>> tokens_of(const json& object, const char* key,
                                       const std::string& origin, const BackboneSpec& backbone) {
  std::vector<int32_t> tokens;
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return tokens;
  if (!it->is_array()) {
    ITIF_ASSIGN(const int32_t token, token_of(*it, key, origin, backbone));
    tokens.push_back(token);
    return tokens;
  }
  if (it->empty() || it->size() > GenerationConfig::kMaxEosTokens)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: '{}' must hold 1 to {} token ids, found {}", origin, key,
                            GenerationConfig::kMaxEosTokens, it->size()));
  for (const json& value : *it) {
    ITIF_ASSIGN(const int32_t token, token_of(value, key, origin, backbone));
    tokens.push_back(token);
  }
  return tokens;
}

Result<std::vector<std::vector<int32_t>>> bad_words_of(const json& object,
                                                       const std::vector<int32_t>& eos,
                                                       const std::string& origin,
                                                       const BackboneSpec& backbone) {
  constexpr const char* kKey = "bad_words_ids";
  std::vector<std::vector<int32_t>> words;
  const auto it = object.find(kKey);
  if (it == object.end() || it->is_null()) return words;
  if (!it->is_array() || it->empty() || it->size() > kMaxBadWords)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: '{}' must be an array of 1 to {} arrays of token ids, found {}",
                            origin, kKey, kMaxBadWords, json_file::shown(*it)));
  for (const json& sequence : *it) {
    if (!sequence.is_array() || sequence.empty() || sequence.size() > kMaxBadWordTokens)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: '{}' must hold arrays of 1 to {} token ids, found {}", origin,
                              kKey, kMaxBadWordTokens, json_file::shown(sequence)));
    std::vector<int32_t> word;
    for (const json& value : sequence) {
      ITIF_ASSIGN(const int32_t token, token_of(value, kKey, origin, backbone));
      word.push_back(token);
    }
    // As in transformers, an eos token cannot be forbidden.
    if (word.size() == 1 && std::ranges::find(eos, word.front()) != eos.end()) continue;
    words.push_back(std::move(word));
  }
  return words;
}

Result<EarlyStopping> early_stopping_of(const json& object, const std::string& origin) {
  const auto it = object.find("early_stopping");
  if (it == object.end() || it->is_null()) return EarlyStopping::kNo;
  if (it->is_boolean()) return it->get<bool>() ? EarlyStopping::kYes : EarlyStopping::kNo;
  if (*it == "never") return EarlyStopping::kNever;
  return fail(Code::kInvalidArgument,
              fmt::format("{}: 'early_stopping' must be false, true or \"never\", found {}", origin,
                          json_file::shown(*it)));
}

// Counts the decoder's first token. The last token is not fed to the decoder and needs no position.
// Without a setting, transformers generates 20 tokens.
Result<uint32_t> max_length_of(const json& object, const std::string& origin,
                               const BackboneSpec& backbone) {
  const uint32_t most = backbone.max_positions + 1;
  const auto it = object.find("max_new_tokens");
  if (it != object.end() && !it->is_null()) {
    ITIF_ASSIGN(const uint32_t more,
                json_file::get_uint(object, "max_new_tokens", 1, most - 1, origin));
    return more + 1;
  }
  return json_file::get_uint_or(object, "max_length", 2, most,
                                std::min(21u, backbone.max_positions), origin);
}

}  // namespace

Result<GenerationConfig> parse_generation_config(const json& object, const std::string& origin,
                                                 const BackboneSpec& backbone) {
  ITIF_TRY(refuse_unimplemented(object, origin));
  GenerationConfig config;
  ITIF_ASSIGN(config.max_length, max_length_of(object, origin, backbone));
  ITIF_ASSIGN(config.num_beams, json_file::get_uint_or(object, "num_beams", 1,
                                                       GenerationConfig::kMaxBeams, 1, origin));
  // transformers fails in a beam search. Greedy search does not read it.
  ITIF_ASSIGN(const bool low_memory, json_file::get_bool_or(object, "low_memory", false, origin));
  if (low_memory && config.num_beams > 1)
    return fail(Code::kUnsupported,
                fmt::format("{}: 'low_memory' must be false in a beam search, found true", origin));
  ITIF_ASSIGN(config.length_penalty,
              json_file::get_number_or(object, "length_penalty", -100, 100, 1, origin));
  ITIF_ASSIGN(config.early_stopping, early_stopping_of(object, origin));
  ITIF_ASSIGN(config.eos, tokens_of(object, "eos_token_id", origin, backbone));
  if (config.eos.empty())
    return fail(Code::kInvalidArgument,
                fmt::format("{}: 'eos_token_id' must be a token id or several, found nothing: "
                            "sequences would never end",
                            origin));
  ITIF_ASSIGN(config.forced_eos, tokens_of(object, "forced_eos_token_id", origin, backbone));
  ITIF_ASSIGN(config.renormalize,
              json_file::get_bool_or(object, "renormalize_logits", false, origin));
  ITIF_ASSIGN(config.bad_words, bad_words_of(object, config.eos, origin, backbone));
  const auto optional_token = [&](const char* key) -> Result<int32_t> {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) return -1;
    return token_of(*it, key, origin, backbone);
  };
  ITIF_ASSIGN(config.forced_bos, optional_token("forced_bos_token_id"));
  ITIF_ASSIGN(config.decoder_start, optional_token("decoder_start_token_id"));
  if (config.decoder_start < 0) {
    ITIF_ASSIGN(config.decoder_start, optional_token("bos_token_id"));
  }
  if (config.decoder_start < 0)
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: 'decoder_start_token_id' must be a token id, found nothing", origin));
  if (backbone.vocab < config.candidates_per_beam())
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: 'num_beams' {} needs a vocabulary of at least {}, found {}", origin,
                    config.num_beams, config.candidates_per_beam(), backbone.vocab));
  return config;
}

Result<GenerationConfig> read_generation_config(const std::string& directory, const json& config,
                                                const BackboneSpec& backbone) {
  const std::string path = directory + "/generation_config.json";
  auto file = json_file::read_json_file(path);
  if (!file && file.error().code == Code::kNotFound)
    return parse_generation_config(config, directory + "/config.json", backbone);
  ITIF_ASSIGN(const json object, std::move(file));
  return parse_generation_config(object, path, backbone);
}

std::string describe(const GenerationConfig& config) {
  return config.num_beams == 1
             ? fmt::format("greedy, at most {} tokens", config.max_length)
             : fmt::format("{} beams, at most {} tokens", config.num_beams, config.max_length);
}

}  // namespace itif::model
