#include "runtime/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace itif::runtime {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
// Initial score of all beams except the first: they are copies of it and must not be chosen.
constexpr float kCopyScore = -1e9f;

}  // namespace

void BeamSearch::reset(const model::GenerationConfig& config) {
  config_ = &config;
  const uint32_t beams = config.num_beams;
  const auto make_room = [&](std::vector<Beam>& all) {
    if (all.size() < beams) all.resize(beams);
    for (Beam& beam : all)
      beam.tokens.resize(std::max<size_t>(beam.tokens.size(), config.max_length));
  };
  make_room(beams_);
  make_room(next_);
  if (hypotheses_.size() < beams + 1) hypotheses_.resize(beams + 1);
  for (Hypothesis& hypothesis : hypotheses_)
    hypothesis.tokens.resize(std::max<size_t>(hypothesis.tokens.size(), config.max_length));
  scored_.reserve(size_t{beams} * config.candidates_per_beam());
  parents_.reserve(beams);
  parents_.clear();
  result_.reserve(config.max_length);
  result_.clear();
  for (uint32_t i = 0; i < beams; ++i) {
    beams_[i].tokens[0] = config.decoder_start;
    beams_[i].score = i == 0 ? 0 : kCopyScore;
  }
  length_ = 1;
  num_live_ = 1;
  num_hypotheses_ = 0;
  worst_score_ = 1e9f;
  done_ = false;
}

bool BeamSearch::is_eos(int32_t token) const noexcept {
  return std::ranges::find(config_->eos, token) != config_->eos.end();
}

void BeamSearch::append_banned(uint32_t beam, std::vector<int32_t>& out) const noexcept {
  const std::vector<int32_t>& tokens = beams_[beam].tokens;
  for (const std::vector<int32_t>& word : config_->bad_words) {
    const auto prefix = static_cast<std::ptrdiff_t>(word.size()) - 1;
    if (prefix == 0 || prefix > static_cast<std::ptrdiff_t>(length_)) continue;
    if (std::equal(word.begin(), word.end() - 1, tokens.begin() + length_ - prefix))
      out.push_back(word.back());
  }
}

// Returns the only tokens that may follow, all equally likely; empty: any may. The last processor
// that forces tokens wins.
std::span<const int32_t> BeamSearch::forced() const noexcept {
  if (!config_->forced_eos.empty() && length_ == config_->max_length - 1)
    return config_->forced_eos;
  if (config_->forced_bos >= 0 && length_ == 1) return {&config_->forced_bos, 1};
  return {};
}

// Fills scored_ with the possible next tokens over all beams, best first.
void BeamSearch::collect(std::span<const Candidate> candidates) noexcept {
  const uint32_t per_beam = config_->candidates_per_beam();
  const std::span<const int32_t> forced = this->forced();
  scored_.clear();
  for (uint32_t beam = 0; beam < config_->num_beams; ++beam) {
    const float score = beams_[beam].score;
    if (!forced.empty()) {
      // Each has log-probability 0, unless the scores are normalised afterwards.
      const float shared = config_->renormalize ? std::log(static_cast<float>(forced.size())) : 0;
      for (const int32_t token : forced) scored_.push_back({score - shared, beam, token});
      continue;
    }
    // At the start all beams are copies of the first.
    const uint32_t row = num_live_ == 1 ? 0 : beam;
    for (const Candidate& candidate : candidates.subspan(size_t{row} * per_beam, per_beam))
      if (candidate.token >= 0 && !std::isnan(candidate.log_probability))
        scored_.push_back({candidate.log_probability + score, beam, candidate.token});
  }
  const size_t kept = std::min<size_t>(scored_.size(), per_beam);
  std::ranges::partial_sort(scored_, scored_.begin() + static_cast<std::ptrdiff_t>(kept),
                            [](const Scored& a, const Scored& b) {
                              if (a.score != b.score) return a.score > b.score;
                              return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
                            });
  scored_.resize(kept);
}

void BeamSearch::advance(std::span<const Candidate> candidates) noexcept {
  CHECK(!done_ && candidates.size() >= size_t{num_live_} * config_->candidates_per_beam());
  if (config_->num_beams == 1) return advance_greedy(candidates);
  collect(candidates);
  const uint32_t beams = config_->num_beams;
  parents_.clear();
  const uint32_t rows = num_live_;
  uint32_t filled = 0;
  const auto continue_with = [&](uint32_t beam, int32_t token, float score) {
    Beam& next = next_[filled++];
    std::copy_n(beams_[beam].tokens.begin(), length_, next.tokens.begin());
    next.tokens[length_] = token;
    next.score = score;
    parents_.push_back(rows == 1 ? 0 : beam);
  };
  for (size_t rank = 0; rank < scored_.size() && filled < beams; ++rank) {
    const Scored& best = scored_[rank];
    if (!is_eos(best.token)) {
      continue_with(best.beam, best.token, best.score);
    } else if (rank < beams) {
      std::vector<int32_t>& tokens = beams_[best.beam].tokens;
      tokens[length_] = best.token;
      add_hypothesis(std::span(tokens).first(length_ + 1), best.score);
    }
  }
  // Too few tokens are possible: fill up with impossible beams, to keep the number of beams.
  int32_t other = 0;
  while (is_eos(other)) ++other;
  while (filled < beams) continue_with(0, other, kImpossible);
  std::swap(beams_, next_);
  num_live_ = beams;
  ++length_;
  done_ = no_beam_can_win();
  if (done_ || length_ >= config_->max_length) finish();
}

void BeamSearch::advance_greedy(std::span<const Candidate> candidates) noexcept {
  const std::span<const int32_t> forced = this->forced();
  // Takes the lowest of several forced tokens, or of all if all are banned, as argmax does on ties.
  int32_t token = std::max(0, candidates.front().token);
  if (!forced.empty()) token = std::ranges::min(forced);
  beams_[0].tokens[length_++] = token;
  parents_.assign(1, 0);
  if (!is_eos(token) && length_ < config_->max_length) return;
  done_ = true;
  result_.assign(beams_[0].tokens.begin() + 1, beams_[0].tokens.begin() + length_);
}

float BeamSearch::normalized(float sum, uint32_t num_generated) const noexcept {
  return sum / static_cast<float>(std::pow(num_generated, config_->length_penalty));
}

// `tokens`: with the decoder's first and the last generated one.
void BeamSearch::add_hypothesis(std::span<const int32_t> tokens, float sum) noexcept {
  const float score = normalized(sum, static_cast<uint32_t>(tokens.size()) - 1);
  if (num_hypotheses_ >= config_->num_beams && !(score > worst_score_)) return;
  Hypothesis& added = hypotheses_[num_hypotheses_++];
  std::ranges::copy(tokens, added.tokens.begin());
  added.length = static_cast<uint32_t>(tokens.size());
  added.score = score;
  if (num_hypotheses_ <= config_->num_beams) {
    worst_score_ = std::min(score, worst_score_);
    return;
  }
  // Drop the worst hypothesis, the oldest on ties. The others keep their order.
  const auto all = std::span(hypotheses_).first(num_hypotheses_);
  const auto worst = std::ranges::min_element(all, {}, &Hypothesis::score);
  std::rotate(worst, worst + 1, all.end());
  --num_hypotheses_;
  worst_score_ =
      std::ranges::min_element(all.first(num_hypotheses_), {}, &Hypothesis::score)->score;
}

bool BeamSearch::no_beam_can_win() const noexcept {
  if (num_hypotheses_ < config_->num_beams) return false;
  if (config_->early_stopping == model::EarlyStopping::kYes) return true;
  const bool never = config_->early_stopping == model::EarlyStopping::kNever;
  const uint32_t length = never && config_->length_penalty > 0 ? config_->max_length : length_;
  return !(normalized(beams_[0].score, length - 1) > worst_score_);
}

void BeamSearch::finish() noexcept {
  if (!done_)
    for (uint32_t beam = 0; beam < config_->num_beams; ++beam)
      add_hypothesis(std::span(beams_[beam].tokens).first(length_), beams_[beam].score);
  done_ = true;
  const auto all = std::span(hypotheses_).first(num_hypotheses_);
  const auto best = std::ranges::max_element(all, {}, &Hypothesis::score);
  result_.assign(best->tokens.begin() + 1, best->tokens.begin() + best->length);
}

}  // namespace itif::runtime
