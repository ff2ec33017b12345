// The files of a tokenizer: accepted settings, and refusals that name file and setting.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/temp_directory.h"
#include "text/load_tokenizer.h"
#include "text/wordpiece_files.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr const char* kTokens = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\nHello\n";

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  EXPECT_EQ(tokenizer.encode(text, {}, {}, ids, types), EncodeStatus::kOk);
  return ids;
}

using Ids = std::vector<int32_t>;

class WordPieceFiles : public ::testing::Test {
 protected:
  WordPieceFiles() { model_.write("vocab.txt", kTokens); }
  Ids ids(std::string_view text) {
    auto tokenizer = load_tokenizer(model_.path());
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return tokenizer ? ids_of(**tokenizer, text) : Ids{};
  }
  void expect_refused(Code code, const std::string& needle) {
    auto tokenizer = load_tokenizer(model_.path());
    ASSERT_FALSE(tokenizer) << needle;
    EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find(needle), std::string::npos)
        << tokenizer.error().message;
    EXPECT_NE(tokenizer.error().message.find(model_.path()), std::string::npos)
        << tokenizer.error().message;
  }
  testing::TempDirectory model_;
};

TEST_F(WordPieceFiles, VocabularyAloneIsUncasedBert) {
  EXPECT_EQ(ids("Hellos [MASK]"), (Ids{2, 5, 6, 4, 3}));
}

TEST_F(WordPieceFiles, SettingsControlLowerCasing) {
  model_.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(ids("Hellos hello HELLO"), (Ids{2, 7, 6, 5, 1, 3}));
}

TEST_F(WordPieceFiles, LineEndingsFollowTheReference) {
  model_.write("vocab.txt", "[PAD]\r\n[UNK]\r[CLS]\n[SEP]\n\nhello");
  EXPECT_EQ(ids("hello"), (Ids{2, 5, 3}));
}

TEST_F(WordPieceFiles, TheLastDuplicateTokenCounts) {
  model_.write("vocab.txt", std::string(kTokens) + "hello\n[SEP]\n");
  EXPECT_EQ(ids("hello[SEP]"), (Ids{2, 8, 9, 9}));
}

TEST_F(WordPieceFiles, SpecialTokensMayHaveOtherNames) {
  model_.write("vocab.txt", "<p>\n<u>\n<c>\n<s>\nhello\n");
  model_.write("special_tokens_map.json", R"({"unk_token": "<u>", "cls_token": {"content": "<c>"},
                                              "sep_token": "<s>", "pad_token": "<p>"})");
  EXPECT_EQ(ids("hello<s>x"), (Ids{2, 4, 3, 1, 3}));
  std::filesystem::remove(model_.file("special_tokens_map.json"));
  model_.write("tokenizer_config.json",
               R"({"unk_token": "<u>", "cls_token": "<c>", "sep_token": {"content": "<s>"}})");
  EXPECT_EQ(ids("hello<s>x"), (Ids{2, 4, 3, 1, 3}));
}

TEST_F(WordPieceFiles, ReadsAddedTokensJson) {
  model_.write("added_tokens.json", R"({"Covid": 8})");
  EXPECT_EQ(ids("hello COVID"), (Ids{2, 5, 8, 3}));
}

// As a list, as named tokens, and under keys of their own.
TEST_F(WordPieceFiles, ReadsMoreSpecialTokens) {
  EXPECT_EQ(ids("hello"), (Ids{2, 5, 3}));
  for (const char* settings :
       {R"({"additional_special_tokens": ["hell"]})", R"({"extra_special_tokens": ["hell"]})",
        R"({"extra_special_tokens": {"image_token": {"content": "hell"}}})",
        R"({"image_token": "hell", "add_eos_token": true})", R"({"eos_token": "hell"})"}) {
    model_.write("vocab.txt", std::string(kTokens) + "hell\n##o\no\n");
    model_.write("tokenizer_config.json", settings);
    EXPECT_EQ(ids("hello"), (Ids{2, 8, 10, 3})) << settings;
  }
  model_.write("tokenizer_config.json", R"({"extra_special_tokens": {"image_token": "<image>"}})");
  expect_refused(Code::kUnsupported, "lacks the additional special token \"<image>\"");
}

TEST_F(WordPieceFiles, TheOlderNameOfTheLongestTextIsRead) {
  model_.write("tokenizer_config.json", R"({"max_len": 9})");
  EXPECT_EQ(load_tokenizer(model_.path()).value()->max_tokens(), 9u);
  model_.write("tokenizer_config.json", R"({"max_len": 9, "model_max_length": 7})");
  EXPECT_EQ(load_tokenizer(model_.path()).value()->max_tokens(), 7u);
}

// Regression: each added token was compared with all earlier ones and with the whole vocabulary, so
// a large file took hours.
TEST_F(WordPieceFiles, ManyAddedTokensTakeLinearTimeAndAreBounded) {
  std::string vocabulary = kTokens;
  json names = json::array();
  for (int i = 0; i < 60'000; ++i) {
    const std::string name = "extra" + std::to_string(i);
    vocabulary += name + "\n";
    names.push_back(name);
  }
  model_.write("vocab.txt", vocabulary);
  model_.write("tokenizer_config.json", json{{"additional_special_tokens", names}}.dump());
  EXPECT_EQ(ids("extra59999"), (Ids{2, 60'007, 3}));
  json added = json::object();
  for (int i = 0; i < 70'000; ++i) added["more" + std::to_string(i)] = 100'000 + i;
  model_.write("added_tokens.json", added.dump());
  expect_refused(Code::kUnsupported, "added_tokens.json: more than 65536 added tokens");
}

TEST_F(WordPieceFiles, RefusesMissingFiles) {
  std::filesystem::remove(model_.file("vocab.txt"));
  expect_refused(Code::kNotFound, "neither tokenizer.json nor vocab.txt");
}

TEST_F(WordPieceFiles, RefusesVocabulariesWithoutSpecialTokens) {
  model_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\nhello\n");
  expect_refused(Code::kCorrupt, "no token '[SEP]'");
  model_.write("vocab.txt", "");
  expect_refused(Code::kCorrupt, "no token '[UNK]'");
}

TEST_F(WordPieceFiles, RefusesVocabulariesThatAreNotText) {
  model_.write("vocab.txt", std::string(kTokens) + "caf\xe9\n");
  expect_refused(Code::kCorrupt, "line 9 is not UTF-8");
}

TEST_F(WordPieceFiles, RefusesOtherTokenizers) {
  model_.write("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  expect_refused(Code::kUnsupported, "found \"RobertaTokenizer\"");
}

TEST_F(WordPieceFiles, RefusesDamagedSettings) {
  const std::pair<const char*, Code> damaged[] = {
      {"{", Code::kCorrupt},
      {"[]", Code::kCorrupt},
      {R"({"do_lower_case": "yes"})", Code::kInvalidArgument},
      {R"({"strip_accents": 1})", Code::kInvalidArgument},
      {R"({"tokenizer_class": 7})", Code::kInvalidArgument},
      {R"({"model_max_length": 0})", Code::kInvalidArgument},
      {R"({"model_max_length": -5})", Code::kInvalidArgument},
      {R"({"cls_token": 7})", Code::kInvalidArgument},
      {R"({"added_tokens_decoder": []})", Code::kCorrupt},
      {R"({"added_tokens_decoder": {"x": {"content": "a"}}})", Code::kCorrupt},
      {R"({"added_tokens_decoder": {"-1": {"content": "a"}}})", Code::kCorrupt},
      {R"({"added_tokens_decoder": {"99999999999": {"content": "a"}}})", Code::kCorrupt},
      {R"({"added_tokens_decoder": {"9": {"content": ""}}})", Code::kCorrupt},
      {R"({"added_tokens_decoder": {"9": "a"}})", Code::kCorrupt}};
  for (const auto& [text, code] : damaged) {
    model_.write("tokenizer_config.json", text);
    SCOPED_TRACE(text);
    expect_refused(code, "tokenizer_config.json");
  }
}

TEST_F(WordPieceFiles, RefusesALowerCasedSentenceModelOnACasedTokenizer) {
  model_.write("tokenizer_config.json", R"({"do_lower_case": false})");
  model_.write("sentence_bert_config.json", R"({"max_seq_length": 128, "do_lower_case": true})");
  expect_refused(Code::kUnsupported, "sentence_bert_config.json");
}

// Starts from a saved tokenizer.json and changes one value at a time.
class TokenizerJson : public WordPieceFiles {
 protected:
  TokenizerJson() {
    std::ifstream(ITIF_TEST_DATA "/wordpiece/added/tokenizer.json") >> document_;
    std::filesystem::remove(model_.file("vocab.txt"));
  }
  void write() { model_.write("tokenizer.json", document_.dump()); }
  void refuse(const char* pointer, const json& value, Code code, const char* needle) {
    const json saved = document_;
    document_[json::json_pointer(pointer)] = value;
    write();
    SCOPED_TRACE(pointer);
    expect_refused(code, needle);
    document_ = saved;
  }
  json document_;
};

TEST_F(TokenizerJson, AcceptsFilesFromTransformers) {
  write();
  auto tokenizer = load_tokenizer(model_.path());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->separator_id(), 3);
}

TEST_F(TokenizerJson, TheClassOverridesItsNormalizer) {
  document_["normalizer"]["lowercase"] = false;
  write();
  const Ids lowered = ids("A");  // no settings: BertTokenizer's default, as in transformers
  model_.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_NE(ids("A"), lowered);
  EXPECT_EQ(ids("a"), lowered);
}

TEST_F(TokenizerJson, AcceptsBertProcessing) {
  document_["post_processor"] =
      json::parse(R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})");
  write();
  EXPECT_EQ(ids(""), (Ids{2, 3}));
}

TEST_F(TokenizerJson, RefusesOtherPipelines) {
  const auto sequence = json::parse(R"({"type": "Sequence", "normalizers": []})");
  model_.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  refuse("/model/type", "BPE", Code::kUnsupported, "BPE");
  refuse("/model/continuing_subword_prefix", "", Code::kUnsupported, "continuing_subword_prefix");
  refuse("/model/max_input_chars_per_word", 10'000, Code::kUnsupported, "10000");
  refuse("/normalizer", sequence, Code::kUnsupported, "normalizer is \"Sequence\"");
  refuse("/normalizer", nullptr, Code::kUnsupported, "no normalizer");
  refuse("/pre_tokenizer/type", "Whitespace", Code::kUnsupported, "pre_tokenizer");
  refuse("/post_processor", nullptr, Code::kUnsupported, "no post_processor");
  refuse("/post_processor/type", "RobertaProcessing", Code::kUnsupported, "RobertaProcessing");
  refuse("/post_processor/pair/3/Sequence/type_id", 0, Code::kUnsupported, "'pair'");
  refuse("/post_processor/single/0/SpecialToken/type_id", 7, Code::kUnsupported, "'single'");
  refuse("/post_processor/single", json::array(), Code::kUnsupported, "'single'");
  refuse("/added_tokens/0/single_word", true, Code::kUnsupported, "single_word");
}

TEST_F(TokenizerJson, RefusesDamagedFiles) {
  model_.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  refuse("/model", 1, Code::kCorrupt, "'model'");
  refuse("/model/vocab", json::array(), Code::kCorrupt, "model.vocab");
  refuse("/model/vocab/a", -1, Code::kCorrupt, "\"a\"");
  refuse("/model/vocab/a", 1u << 30, Code::kCorrupt, "\"a\"");
  refuse("/model/vocab/a", "b", Code::kCorrupt, "\"a\"");
  refuse("/model/unk_token", "[NONE]", Code::kCorrupt, "no token '[NONE]'");
  refuse("/normalizer/lowercase", "x", Code::kInvalidArgument, "lowercase");
  refuse("/post_processor/single/0/SpecialToken/id", "[NONE]", Code::kUnsupported,
         "different tokens");
  refuse("/added_tokens", 1, Code::kCorrupt, "added_tokens");
  refuse("/added_tokens/0", 1, Code::kCorrupt, "added token");
  refuse("/added_tokens/0/id", -1, Code::kCorrupt, "id");
  refuse("/added_tokens/0/content", "", Code::kCorrupt, "without content");
  model_.write("tokenizer.json", "{\"model\": ");
  expect_refused(Code::kCorrupt, "not JSON");
}

}  // namespace
}  // namespace itif::text
