// generation_config.json: settings that are read, and settings that are refused by name.
#include "model/generation_config.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace itif::model {
namespace {

using nlohmann::json;

BackboneSpec backbone() {
  BackboneSpec spec;
  spec.vocab = 100;
  spec.max_positions = 64;
  return spec;
}

json marian() {
  return {{"bad_words_ids", {{99}, {0}, {7, 8}}},
          {"bos_token_id", 0},
          {"decoder_start_token_id", 99},
          {"eos_token_id", 0},
          {"forced_eos_token_id", 0},
          {"max_length", 64},
          {"num_beams", 4},
          {"pad_token_id", 99},
          {"temperature", 0.3},
          {"transformers_version", "4.36.2"}};
}

TEST(GenerationConfig, ReadsMarianConfigs) {
  const auto config = parse_generation_config(marian(), "f", backbone());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(*config, (GenerationConfig{.max_length = 64,
                                       .num_beams = 4,
                                       .decoder_start = 99,
                                       .eos = {0},
                                       .forced_eos = {0},
                                       .bad_words = {{99}, {7, 8}}}));
  EXPECT_EQ(config->candidates_per_beam(), 8u);
  EXPECT_EQ(describe(*config), "4 beams, at most 64 tokens");
}

TEST(GenerationConfig, DefaultsEqualTransformers) {
  const auto config = parse_generation_config(
      {{"eos_token_id", {3, 5}}, {"bos_token_id", 2}, {"early_stopping", nullptr}}, "f",
      backbone());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(*config, (GenerationConfig{.decoder_start = 2, .eos = {3, 5}}));
}

TEST(GenerationConfig, MaxNewTokensExcludesTheStartToken) {
  json object = marian();
  object["max_new_tokens"] = 9;
  object["early_stopping"] = "never";
  object["length_penalty"] = 0.6;
  const auto config = parse_generation_config(object, "f", backbone());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->max_length, 10u);
  EXPECT_EQ(config->early_stopping, EarlyStopping::kNever);
  EXPECT_EQ(config->length_penalty, 0.6);
  EXPECT_FALSE(config->renormalize);
}

TEST(GenerationConfig, MissingLengthsAreThoseOfTheNewestTransformers) {
  json object = marian();
  object.erase("max_length");
  EXPECT_EQ(parse_generation_config(object, "f", backbone())->max_length, 21u);
  object["max_length"] = 20;
  EXPECT_EQ(parse_generation_config(object, "f", backbone())->max_length, 20u);
  object["renormalize_logits"] = true;
  EXPECT_TRUE(parse_generation_config(object, "f", backbone())->renormalize);
  object["renormalize_logits"] = "yes";
  EXPECT_FALSE(parse_generation_config(object, "f", backbone()));
}

TEST(GenerationConfig, SettingsThatChangeTheOutputAreRefusedByName) {
  const std::pair<const char*, json> settings[] = {
      {"do_sample", true},
      {"num_beam_groups", 2},
      {"diversity_penalty", 0.5},
      {"repetition_penalty", 1.2},
      {"no_repeat_ngram_size", 3},
      {"min_length", 5},
      {"min_new_tokens", 1},
      {"num_return_sequences", 2},
      {"suppress_tokens", {1}},
      {"forced_decoder_ids", json::array({json::array({1, 2})})},
      {"guidance_scale", 2.0},
      {"penalty_alpha", 0.6},
      {"sequence_bias", json::array()},
      {"encoder_repetition_penalty", 1.5},
      {"encoder_no_repeat_ngram_size", 1},
      {"remove_invalid_values", true},
      {"exponential_decay_length_penalty", {1, 1.1}},
      {"begin_suppress_tokens", {4}},
      {"force_words_ids", {{1}}},
      {"constraints", json::array()},
      {"max_time", 1.0},
      {"stop_strings", "x"},
      {"stop_strings", {"x"}},
      {"cache_implementation", "quantized"},
      {"watermarking_config", json::object({{"bias", 2.5}})},
      {"dola_layers", "high"},
      {"token_healing", true},
      {"is_assistant", true},
      {"low_memory", true}};
  for (const auto& [key, value] : settings) {
    json object = marian();
    object[key] = value;
    const auto config = parse_generation_config(object, "f.json", backbone());
    ASSERT_FALSE(config) << key;
    EXPECT_EQ(config.error().code, Code::kUnsupported) << key;
    EXPECT_NE(config.error().message.find(std::string("f.json: '") + key + "'"), std::string::npos)
        << config.error().message;
    object[key] = nullptr;
    EXPECT_TRUE(parse_generation_config(object, "f", backbone())) << key;
  }
}

// They name no token, and transformers bans or forces none.
TEST(GenerationConfig, EmptyListsAreNeutral) {
  for (const char* key : {"suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids",
                          "force_words_ids", "stop_strings"}) {
    json object = marian();
    object[key] = json::array();
    const auto config = parse_generation_config(object, "f", backbone());
    EXPECT_TRUE(config) << config.error().message;
  }
}

// transformers fails for it.
TEST(GenerationConfig, AnEmptyListOfBadWordsIsRefused) {
  json object = marian();
  object["bad_words_ids"] = json::array();
  const auto config = parse_generation_config(object, "f.json", backbone());
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("f.json: 'bad_words_ids' must be"), std::string::npos)
      << config.error().message;
}

TEST(GenerationConfig, GreedySearchIgnoresLowMemory) {
  json object = marian();
  object["num_beams"] = 1;
  object["low_memory"] = true;
  EXPECT_TRUE(parse_generation_config(object, "f", backbone()));
}

TEST(GenerationConfig, KeysThatGenerateNeverReadAreIgnored) {
  const std::pair<const char*, json> settings[] = {
      {"cache_implementation", "static"}, {"cache_implementation", "offloaded"},
      {"cache_config", {{"nbits", 4}}},   {"custom_generate", "some/repository"},
      {"normalize_before", true},         {"temperature", 0.1},
      {"torch_dtype", "float16"}};
  for (const auto& [key, value] : settings) {
    json object = marian();
    object[key] = value;
    const auto config = parse_generation_config(object, "f", backbone());
    EXPECT_TRUE(config) << config.error().message;
  }
}

TEST(GenerationConfig, WrongValuesAreNamed) {
  const std::pair<const char*, json> settings[] = {{"eos_token_id", 100},
                                                   {"eos_token_id", nullptr},
                                                   {"eos_token_id", json::array()},
                                                   {"eos_token_id", -1},
                                                   {"decoder_start_token_id", "x"},
                                                   {"forced_bos_token_id", 100},
                                                   {"forced_eos_token_id", {0, 1000}},
                                                   {"max_length", 1},
                                                   {"max_length", 66},
                                                   {"max_new_tokens", 65},
                                                   {"num_beams", 0},
                                                   {"num_beams", 17},
                                                   {"early_stopping", "always"},
                                                   {"bad_words_ids", {7}},
                                                   {"bad_words_ids", 7},
                                                   {"bad_words_ids", {{100}}},
                                                   {"bad_words_ids", json::array({json::array()})},
                                                   {"length_penalty", "a"}};
  for (const auto& [key, value] : settings) {
    json object = marian();
    object[key] = value;
    const auto config = parse_generation_config(object, "f.json", backbone());
    ASSERT_FALSE(config) << key << value;
    EXPECT_EQ(config.error().code, Code::kInvalidArgument) << key;
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
  }
}

TEST(GenerationConfig, FallsBackToConfigJson) {
  const std::string directory =
      std::filesystem::temp_directory_path() / ("itif_generation_" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  auto config = read_generation_config(directory, marian(), backbone());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->num_beams, 4u);
  json other = marian();
  other["num_beams"] = 2;
  std::ofstream(directory + "/generation_config.json") << other;
  config = read_generation_config(directory, marian(), backbone());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->num_beams, 2u);
  std::ofstream(directory + "/generation_config.json") << "{";
  EXPECT_FALSE(read_generation_config(directory, marian(), backbone()));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace itif::model
