// Beam search of one sequence: turns the best tokens of each live beam into the next step's beams.
//
// Pure: no device, no K/V. Makes the same decisions in the same arithmetic as transformers' beam
// search and its logits processors (bad words, forced first and last tokens, normalisation). With
// one beam it matches transformers' greedy search. Equal scores, whose order transformers leaves
// undefined, go to the lower beam, then to the lower token.
//
// Allocates only in reset(), and only for a larger configuration than before.
// Source: transformers 5.24, generation/utils.py (_beam_search), generation/logits_process.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/generation_config.h"

namespace itif::runtime {

// A possible next token and its log-probability. A step takes candidates_per_beam() for each live
// beam, best first, without banned tokens. Unused entries at the end have token -1.
struct Candidate {
  float log_probability = 0;
  int32_t token = -1;
};

class BeamSearch {
 public:
  // Starts a new search. `config` outlives it.
  void reset(const model::GenerationConfig& config);

  // Beams to compute next: 1 at first, then config.num_beams.
  uint32_t num_beams() const noexcept { return num_live_; }
  // Position of the token that is fed next: 0, 1, ….
  uint32_t position() const noexcept { return length_ - 1; }
  int32_t last_token(uint32_t beam) const noexcept { return beams_[beam].tokens[length_ - 1]; }
  // Appends to `out` the tokens that must not follow in `beam`: the ends of bad-word sequences of
  // two or more tokens. Excludes single-token bad words, which are banned always and for all beams.
  void append_banned(uint32_t beam, std::vector<int32_t>& out) const noexcept;

  // `candidates`: num_beams() · candidates_per_beam(). REQUIRES: !done().
  void advance(std::span<const Candidate> candidates) noexcept;
  // For each live beam, the beam before the last advance() that it continues and whose K/V it
  // needs.
  std::span<const uint32_t> parents() const noexcept { return parents_; }

  bool done() const noexcept { return done_; }
  // The generated tokens, without the decoder's first token. REQUIRES: done().
  std::span<const int32_t> result() const noexcept { return result_; }

 private:
  struct Beam {
    std::vector<int32_t> tokens;
    float score = 0;
  };
  struct Hypothesis {
    std::vector<int32_t> tokens;
    uint32_t length = 0;
    float score = 0;
  };
  struct Scored {
    float score = 0;
    uint32_t beam = 0;
    int32_t token = 0;
  };
  std::span<const int32_t> forced() const noexcept;
  bool is_eos(int32_t token) const noexcept;
  void collect(std::span<const Candidate> candidates) noexcept;
  void advance_greedy(std::span<const Candidate> candidates) noexcept;
  float normalized(float sum, uint32_t num_generated) const noexcept;
  void add_hypothesis(std::span<const int32_t> tokens, float sum) noexcept;
  bool no_beam_can_win() const noexcept;
  void finish() noexcept;

  const model::GenerationConfig* config_ = nullptr;
  uint32_t length_ = 0;  // tokens of each beam
  uint32_t num_live_ = 0;
  bool done_ = true;
  std::vector<Beam> beams_, next_;
  std::vector<uint32_t> parents_;
  std::vector<Scored> scored_;
  std::vector<Hypothesis> hypotheses_;  // capacity: num_beams + 1
  uint32_t num_hypotheses_ = 0;
  float worst_score_ = 0;
  std::vector<int32_t> result_;
};

}  // namespace itif::runtime
