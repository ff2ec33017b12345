// Beam search compared with transformers' generate(), on a model whose logits are a hash of the
// tokens so far.
#include "runtime/generate/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "support/test_data.h"

namespace itif::runtime {
namespace {

using model::GenerationConfig;

constexpr const char* kTransformers = "5.24.0";  // which the search follows: docs/models.md
constexpr const char* kOlderTransformers = "4.36.2";
using nlohmann::json;

uint64_t splitmix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Same as hash_logits() of tests/reference/make_beam_goldens.py.
std::vector<float> hash_logits(const json& c, std::span<const int32_t> tokens) {
  uint64_t state = splitmix(c["seed"].get<uint64_t>());
  for (const int32_t token : tokens) state = splitmix(state ^ static_cast<uint64_t>(token + 1));
  std::vector<float> logits(c["vocab"].get<size_t>());
  for (size_t v = 0; v < logits.size(); ++v)
    logits[v] = static_cast<float>(static_cast<double>(splitmix(state ^ ((v + 1) << 32)) >> 44) /
                                   (1 << 20) * c["spread"].get<double>());
  for (const int32_t token : c["eos"].get<std::vector<int32_t>>())
    logits[static_cast<size_t>(token)] += c["eos_lift"].get<float>();
  return logits;
}

GenerationConfig config_of(const json& c) {
  model::BackboneSpec spec;
  spec.vocab = c["vocab"].get<uint32_t>();
  spec.max_positions = 512;
  auto config = model::parse_generation_config(c["config"], "case", spec);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : GenerationConfig{};
}

// Emulates the device's top_tokens(): log-softmax over all tokens, or over those that are not
// banned, then the best that are not.
void best_of(std::vector<float> logits, const std::vector<int32_t>& banned, bool renormalize,
             std::span<Candidate> out) {
  const auto ban = [&] {
    for (const int32_t token : banned)
      logits[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  };
  if (renormalize) ban();
  const float most = std::ranges::max(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - most));
  const auto log_sum = static_cast<float>(std::log(sum));
  ban();
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = {};
    if (i >= order.size() || std::isinf(logits[static_cast<size_t>(order[i])])) continue;
    out[i] = {logits[static_cast<size_t>(order[i])] - most - log_sum, order[i]};
  }
}

// Tracks the tokens of each beam only by parents(), as the K/V cache's block tables are.
std::vector<int32_t> search_all(const json& c, const GenerationConfig& config, BeamSearch& search) {
  search.reset(config);
  std::vector<std::vector<int32_t>> beams(1);
  const uint32_t per_beam = config.candidates_per_beam();
  while (!search.done()) {
    std::vector<Candidate> candidates(size_t{search.num_beams()} * per_beam);
    for (uint32_t beam = 0; beam < search.num_beams(); ++beam) {
      beams[beam].push_back(search.last_token(beam));
      EXPECT_EQ(beams[beam].size(), search.position() + 1);
      std::vector<int32_t> banned;
      for (const auto& word : config.bad_words)
        if (word.size() == 1) banned.push_back(word.front());
      search.append_banned(beam, banned);
      best_of(hash_logits(c, beams[beam]), banned, config.renormalize,
              std::span(candidates).subspan(size_t{beam} * per_beam, per_beam));
    }
    search.advance(candidates);
    std::vector<std::vector<int32_t>> next;
    for (const uint32_t parent : search.parents()) next.push_back(beams.at(parent));
    beams = next;
  }
  return {search.result().begin(), search.result().end()};
}

json golden_cases() {
  std::ifstream file(testing::test_data("beam_search.json"));
  return json::parse(file);
}

TEST(BeamSearch, SameTokensAsTheNewestTransformers) {
  const json cases = golden_cases();
  ASSERT_GE(cases.size(), 600u);
  BeamSearch search;  // shared: no state may reach the next case
  size_t from_older = 0, differ = 0;
  for (const json& c : cases) {
    const GenerationConfig config = config_of(c);
    const json& answers = c["answers"];
    const json& newest = answers.at(kTransformers);
    const auto expected = newest.get<std::vector<int32_t>>();
    std::vector<int32_t> found = search_all(c, config, search);
    // Several forced last tokens are equally good: transformers takes any of them.
    if (config.forced_eos.size() > 1 && found.size() + 1 == config.max_length &&
        found.size() == expected.size()) {
      EXPECT_EQ(found.back(), std::ranges::min(config.forced_eos));
      EXPECT_NE(std::ranges::find(config.forced_eos, expected.back()), config.forced_eos.end());
      found.back() = expected.back();
    }
    EXPECT_EQ(found, expected) << c["config"].dump() << " seed " << c["seed"];
    if (!answers.contains(kOlderTransformers)) continue;
    ++from_older;
    differ += answers[kOlderTransformers] != newest;
  }
  EXPECT_GE(from_older, 400u);
  EXPECT_EQ(differ, 60u) << "docs/models.md says how often the versions differ";
}

TEST(BeamSearch, EndsIfAllTokensAreBanned) {
  GenerationConfig config{.max_length = 4, .num_beams = 2, .eos = {1}};
  BeamSearch search;
  search.reset(config);
  while (!search.done()) {
    const std::vector<Candidate> none(size_t{search.num_beams()} * config.candidates_per_beam());
    search.advance(none);
  }
  EXPECT_EQ(search.result().size(), 3u);
}

TEST(BeamSearch, EndsOnNanScores) {
  for (const uint32_t beams : {1u, 3u}) {
    GenerationConfig config{.max_length = 6, .num_beams = beams, .eos = {1}};
    BeamSearch search;
    search.reset(config);
    while (!search.done()) {
      std::vector<Candidate> bad(size_t{search.num_beams()} * config.candidates_per_beam(),
                                 {std::numeric_limits<float>::quiet_NaN(), 3});
      search.advance(bad);
    }
    EXPECT_LE(search.result().size(), 5u);
  }
}

}  // namespace
}  // namespace itif::runtime
