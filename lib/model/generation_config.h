// How a model's decoder generates: from generation_config.json, or from the same keys of
// config.json if there is none (transformers' GenerationConfig).
//
// Beam search and greedy search are supported. Any other setting that would change the output is
// refused by name. Settings that affect only sampling (temperature, top_k, …) are ignored.
// The meaning of a missing setting is that of transformers 5.24.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/spec.h"

namespace itif::model {

// When a search ends, once it has as many finished hypotheses as beams.
enum class EarlyStopping : uint8_t {
  kNo,     // when the best open beam cannot win if it ended now
  kYes,    // immediately
  kNever,  // when no open beam can ever win
};

struct GenerationConfig {
  static constexpr uint32_t kMaxBeams = 16;
  static constexpr uint32_t kMaxEosTokens = 8;

  uint32_t max_length = 21;  // tokens, the decoder's first included
  uint32_t num_beams = 1;    // 1: greedy
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  int32_t decoder_start = 0;
  std::vector<int32_t> eos;              // at least one
  int32_t forced_bos = -1;               // the first generated token; -1: any
  std::vector<int32_t> forced_eos = {};  // the last token at max_length; empty: any
  // Token sequences that are never generated. They do not include a single eos.
  std::vector<std::vector<int32_t>> bad_words = {};
  // Banned tokens do not count in the softmax.
  bool renormalize = false;

  // The number of best tokens per beam that a search step needs.
  uint32_t candidates_per_beam() const {
    const auto eos_and_one = static_cast<uint32_t>(eos.size()) + 1;
    return num_beams == 1 ? 1 : (eos_and_one > 2 ? eos_and_one : 2) * num_beams;
  }
  bool operator==(const GenerationConfig&) const = default;
};

// `config` is the directory's parsed config.json. Errors: as for every file of a model;
// kUnsupported: a setting that is not implemented.
Result<GenerationConfig> read_generation_config(const std::string& directory,
                                                const nlohmann::json& config,
                                                const BackboneSpec& backbone);

// Same, from one object; `origin` names it in errors.
Result<GenerationConfig> parse_generation_config(const nlohmann::json& object,
                                                 const std::string& origin,
                                                 const BackboneSpec& backbone);

// Human-readable: "4 beams, at most 512 tokens".
std::string describe(const GenerationConfig& config);

}  // namespace itif::model
