// How a model's decoder generates, as its directory says: generation_config.json, or the same keys of
// config.json where there is none (transformers' GenerationConfig).
//
// Beam search and greedy search; whatever else would change the output is refused by name, never
// ignored. What only matters to sampling (temperature, top_k, …) is read past.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/spec.h"

namespace itif::model {

// When a search with as many finished hypotheses as beams ends.
enum class EarlyStopping : uint8_t {
  kNo,     // when the best open beam cannot win if it ended now
  kYes,    // at once
  kNever,  // when no open beam can ever win
};

struct GenerationConfig {
  static constexpr uint32_t kMaxBeams = 16;
  static constexpr uint32_t kMaxEosTokens = 8;

  uint32_t max_length = 20;  // tokens, the decoder's first included
  uint32_t num_beams = 1;    // 1: greedy
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  int32_t decoder_start = 0;
  std::vector<int32_t> eos;  // one at least; what ends a hypothesis is written as the first
  int32_t forced_bos = -1;   // the first generated token; -1: none
  std::vector<int32_t> forced_eos = {};  // the last one at max_length; empty: none
  // Sequences that are never completed. A single eos is not among them.
  std::vector<std::vector<int32_t>> bad_words = {};

  // Best tokens of each beam that a step of the search needs.
  uint32_t candidates_per_beam() const {
    const auto eos_and_one = static_cast<uint32_t>(eos.size()) + 1;
    return num_beams == 1 ? 1 : (eos_and_one > 2 ? eos_and_one : 2) * num_beams;
  }
  bool operator==(const GenerationConfig&) const = default;
};

// `config` is the directory's config.json, parsed. Errors: as for every file of a model;
// kUnsupported, a setting that we do not implement.
Result<GenerationConfig> read_generation_config(const std::string& directory,
                                                const nlohmann::json& config,
                                                const BackboneSpec& backbone);

// The same of one object; `origin` names it in errors.
Result<GenerationConfig> parse_generation_config(const nlohmann::json& object,
                                                 const std::string& origin,
                                                 const BackboneSpec& backbone);

// For people: "beams 4, at most 512 tokens".
std::string describe(const GenerationConfig& config);

}  // namespace itif::model
