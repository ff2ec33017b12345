// The settings that sentence-transformers keeps beside a tokenizer, under all names that it has
// used.
#include "text/sentence_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/temp_directory.h"
#include "text/load_tokenizer.h"

namespace itif::text {
namespace {

const char* const kSentenceNames[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"};

TEST(SentenceSettings, EveryNameOfTheLibraryIsRead) {
  for (const char* name : kSentenceNames) {
    testing::TempDirectory model;
    model.write(name, R"({"max_seq_length": 17, "do_lower_case": true})");
    const auto settings = read_sentence_settings(model.path());
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(settings->path, model.file(name));
    EXPECT_EQ(settings->max_seq_length, 17u);
    EXPECT_TRUE(settings->do_lower_case);
  }
  testing::TempDirectory none;
  const auto settings = read_sentence_settings(none.path());
  ASSERT_TRUE(settings);
  EXPECT_TRUE(settings->path.empty());
  EXPECT_EQ(settings->max_seq_length, 0u);
  EXPECT_TRUE(check_sentence_case(none.path(), false));
}

TEST(SentenceSettings, TheFirstNameWins) {
  testing::TempDirectory model;
  model.write("sentence_bert_config.json", R"({"max_seq_length": null})");
  model.write("sentence_roberta_config.json", R"({"max_seq_length": 9})");
  EXPECT_EQ(read_sentence_settings(model.path())->max_seq_length, 0u);
}

TEST(SentenceSettings, ArgumentsOfLoadersAreRefusedByName) {
  for (const char* key : {"model_args", "model_kwargs", "tokenizer_args", "config_kwargs",
                          "processor_kwargs", "processing_kwargs"}) {
    testing::TempDirectory model;
    model.write("sentence_bert_config.json",
                std::string("{\"") + key + "\": {\"model_max_length\": 64}}");
    const auto settings = read_sentence_settings(model.path());
    ASSERT_FALSE(settings) << key;
    EXPECT_EQ(settings.error().code, Code::kUnsupported);
    EXPECT_NE(settings.error().message.find(key), std::string::npos) << settings.error().message;
    model.write("sentence_bert_config.json", std::string("{\"") + key + "\": {}}");
    EXPECT_TRUE(read_sentence_settings(model.path())) << key;
  }
}

TEST(SentenceSettings, ArgumentsThatChangeNoResultAreAccepted) {
  testing::TempDirectory model;
  model.write("sentence_bert_config.json", R"({
    "model_args": {"torch_dtype": "float16", "attn_implementation": "sdpa",
                   "add_pooling_layer": false},
    "tokenizer_args": {"trust_remote_code": true}, "unpad_inputs": true})");
  const auto settings = read_sentence_settings(model.path());
  EXPECT_TRUE(settings) << settings.error().message;
}

// As sentence-transformers 6.2 writes the file, and with values of its other tasks.
TEST(SentenceSettings, OtherTasksAreRefusedByName) {
  const char* const written = R"({
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings"})";
  const std::pair<const char*, nlohmann::json> changes[] = {
      {"/transformer_task", "fill-mask"},
      {"/modality_config/text/method", "get_text_features"},
      {"/modality_config/text/method_output_name", "logits"},
      {"/modality_config", nlohmann::json::object()},
      {"/modality_config/message", {{"method", "forward"}, {"format", "flat"}}},
      {"/module_output_name", "sentence_embedding"},
      {"/query_expansion", {{"length", 32}}},
      {"/query_length", 32},
      {"/document_length", 180},
      {"/tokenizer_name_or_path", "other"}};
  testing::TempDirectory model;
  model.write("sentence_bert_config.json", written);
  EXPECT_TRUE(read_sentence_settings(model.path()));
  for (const auto& [pointer, value] : changes) {
    nlohmann::json config = nlohmann::json::parse(written);
    config[nlohmann::json::json_pointer(pointer)] = value;
    model.write("sentence_bert_config.json", config.dump());
    const auto settings = read_sentence_settings(model.path());
    ASSERT_FALSE(settings) << pointer;
    EXPECT_EQ(settings.error().code, Code::kUnsupported);
    std::string key(pointer + 1);
    std::ranges::replace(key, '/', '.');
    EXPECT_NE(settings.error().message.find("'" + key + "'"), std::string::npos)
        << settings.error().message;
  }
}

// Byte-level BPE keeps case. Lower-casing before it would change nearly every token.
TEST(SentenceSettings, LowerCaseBeforeATokenizerThatKeepsCaseIsRefused) {
  testing::TempDirectory folder;
  const std::string model = folder.file("model");
  std::filesystem::copy(ITIF_TEST_DATA "/roberta_tokenizer", model);
  ASSERT_TRUE(load_tokenizer(model));
  folder.write("model/sentence_roberta_config.json",
               R"({"max_seq_length": 64, "do_lower_case": true})");
  const auto refused = load_tokenizer(model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("do_lower_case is true"), std::string::npos);
}

// They change the tokens of every tokenizer.
TEST(TokenizerSettings, CuttingFromTheLeftAndSplitSpecialTokensAreRefused) {
  for (const auto& [key, value] :
       {std::pair{"truncation_side", "\"left\""}, std::pair{"split_special_tokens", "true"}}) {
    testing::TempDirectory folder;
    const std::string model = folder.file("model");
    std::filesystem::copy(ITIF_TEST_DATA "/roberta_tokenizer", model);
    std::string config = folder.read("model/tokenizer_config.json");
    config.insert(config.find('{') + 1, std::string("\"") + key + "\": " + value + ", ");
    folder.write("model/tokenizer_config.json", config);
    const auto refused = load_tokenizer(model);
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().code, Code::kUnsupported);
    EXPECT_NE(refused.error().message.find(key), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace itif::text
