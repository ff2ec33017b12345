// The RoBERTa and ALBERT tokenizers compared with those of transformers
// (tests/reference/make_framed_tokenizer_goldens.py), and damaged directories.
#include "text/framed_tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "support/temp_directory.h"
#include "text/load_tokenizer.h"

namespace itif::text {
namespace {

using nlohmann::json;

std::string directory(const std::string& family) {
  return std::string(ITIF_TEST_DATA) + "/" + family + "_tokenizer";
}

json read(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

// The texts and their ids in the newest version of transformers. "texts" has those of 4.36, and
// "newest" those that differ.
json newest_texts(const json& golden) {
  json texts = golden["texts"];
  for (json& c : texts)
    for (const json& other : golden["newest"]["texts"])
      if (other[0] == c[0]) c[1] = other[1];
  return texts;
}

class FramedTokenizers : public ::testing::TestWithParam<const char*> {
 protected:
  FramedTokenizers() {
    auto loaded = load_tokenizer(directory(GetParam()));
    EXPECT_TRUE(loaded) << loaded.error().message;
    tokenizer = std::move(*loaded);
    golden = read(directory(GetParam()) + "/golden.json");
  }
  EncodeStatus encode(const json& text, const json& pair, const EncodeOptions& options = {}) {
    ids.clear();
    types.clear();
    const std::string first = text, second = pair.is_null() ? "" : pair;
    return tokenizer->encode(first, pair.is_null() ? std::nullopt : std::optional(second), options,
                             ids, types);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  json golden;
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
};

TEST_P(FramedTokenizers, EncodeAsTransformers) {
  EXPECT_EQ(tokenizer->max_tokens(), 512u);
  ASSERT_GE(golden["texts"].size(), 400u);
  for (const json& c : newest_texts(golden)) {
    ASSERT_EQ(encode(c[0], nullptr), EncodeStatus::kOk);
    EXPECT_EQ(ids, c[1].get<std::vector<int32_t>>()) << c[0];
    EXPECT_EQ(types, std::vector<uint8_t>(ids.size(), 0));
  }
}

TEST_P(FramedTokenizers, EncodePairsAsTransformers) {
  ASSERT_GE(golden["pairs"].size(), 50u);
  for (const json& c : golden["pairs"]) {
    ASSERT_EQ(encode(c[0], c[1]), EncodeStatus::kOk);
    EXPECT_EQ(ids, c[2].get<std::vector<int32_t>>()) << c;
    EXPECT_EQ(types, c[3].get<std::vector<uint8_t>>()) << c;
  }
}

TEST_P(FramedTokenizers, CutAsTransformers) {
  ASSERT_GE(golden["cut"].size(), 100u);
  for (const json& c : golden["cut"]) {
    const EncodeOptions options{.max_tokens = c[2], .truncation = Truncation::kLongestFirst};
    ASSERT_EQ(encode(c[0], c[1], options), EncodeStatus::kOk);
    EXPECT_EQ(ids, c[3].get<std::vector<int32_t>>()) << c;
    EXPECT_EQ(types.size(), ids.size());
  }
}

TEST_P(FramedTokenizers, RefusedTextLeavesNoTokens) {
  EXPECT_EQ(encode("a fine day, and another one", nullptr, {.max_tokens = 5}),
            EncodeStatus::kTooLong);
  EXPECT_EQ(encode("a", "a fine day, and another one", {.max_tokens = 8}), EncodeStatus::kTooLong);
  EXPECT_EQ(encode("a", "b", {.max_tokens = 2}), EncodeStatus::kTooLong);
  EXPECT_TRUE(ids.empty() && types.empty());
  EXPECT_EQ(tokenizer->encode("\xff", {}, {}, ids, types), EncodeStatus::kMalformed);
  EXPECT_EQ(tokenizer->encode("a", "\xc0\x80", {}, ids, types), EncodeStatus::kMalformed);
  EXPECT_TRUE(ids.empty() && types.empty());
}

INSTANTIATE_TEST_SUITE_P(Families, FramedTokenizers, ::testing::Values("roberta", "albert"));

// Added tokens of RoBERTa that overlap (tests/reference/make_added_token_goldens.py).
class AddedTokens : public ::testing::Test {
 protected:
  AddedTokens() {
    std::filesystem::copy(std::string(ITIF_TEST_DATA) + "/saved_tokenizers/roberta", model_);
    settings_ = read(model_ + "/tokenizer_config.json");
    settings_["extra_special_tokens"] = json::array();
  }
  Result<std::unique_ptr<Tokenizer>> load(const json& class_name, const json& decoder) {
    settings_["tokenizer_class"] = class_name;
    settings_["added_tokens_decoder"] = decoder;
    folder_.write("model/tokenizer_config.json", settings_.dump());
    return load_tokenizer(model_);
  }

  testing::TempDirectory folder_;
  const std::string model_ = folder_.file("model");
  json settings_;
};

TEST_F(AddedTokens, MatchAsInTransformersWhereTheyOverlap) {
  const json golden = read(std::string(ITIF_TEST_DATA) + "/added_tokens.json");
  ASSERT_GE(golden["cases"].size(), 50u);
  for (const json& one : golden["cases"]) {
    const auto tokenizer = load(one["class"], one["decoder"]);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (const json& text : one["texts"]) {
      std::vector<int32_t> ids;
      std::vector<uint8_t> types;
      ASSERT_EQ((*tokenizer)->encode(text[0].get<std::string>(), {}, {}, ids, types),
                EncodeStatus::kOk);
      EXPECT_EQ(ids, text[1].get<std::vector<int32_t>>()) << text[0] << " of " << one["decoder"];
    }
  }
}

TEST_F(AddedTokens, InRemovedWhiteSpaceAreRefused) {
  const json stripping = {{"content", "<a>"}, {"rstrip", true}};
  const json spaced = {{"content", " b"}};
  EXPECT_TRUE(load("RobertaTokenizer", {{"500", spaced}}));
  EXPECT_TRUE(load("RobertaTokenizer", {{"500", stripping}}));
  const auto both = load("RobertaTokenizer", {{"500", spaced}, {"501", stripping}});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code, Code::kUnsupported);
  EXPECT_NE(both.error().message.find("\" b\" begins with white space"), std::string::npos)
      << both.error().message;
}

// A word of 256 KiB must not take quadratic time.
TEST(ByteBpe, ALongWordTakesLinearTime) {
  const auto tokenizer = load_tokenizer(directory("roberta")).value();
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  std::string word;
  for (int i = 0; i < 1 << 18; ++i) word += "rete"[i % 4];
  ASSERT_EQ(tokenizer->encode(word, {}, {}, ids, types), EncodeStatus::kOk);
  EXPECT_LT(ids.size(), word.size());
}

class TokenizerDirectory : public ::testing::Test {
 protected:
  explicit TokenizerDirectory(const std::string& family)
      : path_(std::filesystem::temp_directory_path() /
              ("itif_" + family + "_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::copy(directory(family), path_);
  }
  ~TokenizerDirectory() override { std::filesystem::remove_all(path_); }
  void write(const std::string& file, const std::string& text) {
    std::ofstream(path_ / file) << text;
  }
  void expect_refused(Code code, const std::string& message) {
    const auto loaded = load_tokenizer(path_);
    ASSERT_FALSE(loaded) << message;
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(message), std::string::npos) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(path_.string()), std::string::npos)
        << loaded.error().message;
  }
  std::filesystem::path path_;
};

class RobertaDirectory : public TokenizerDirectory {
 protected:
  RobertaDirectory() : TokenizerDirectory("roberta") {}
  // Returns the same tokenizer as one tokenizer.json.
  json as_one_file() {
    json merges = json::array();
    std::ifstream file(path_ / "merges.txt");
    for (std::string line; std::getline(file, line);)
      if (!line.starts_with("#version")) merges.push_back(line);
    return {
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"post_processor", {{"type", "RobertaProcessing"}}},
        {"model", {{"type", "BPE"}, {"vocab", read(path_ / "vocab.json")}, {"merges", merges}}}};
  }
  void use_one_file(const json& document) {
    std::filesystem::remove(path_ / "merges.txt");
    std::filesystem::remove(path_ / "vocab.json");
    write("tokenizer.json", document.dump());
  }
};

TEST_F(RobertaDirectory, TokenizerJsonGivesTheSameIds) {
  use_one_file(as_one_file());
  const auto tokenizer = load_tokenizer(path_);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (const json& c : newest_texts(read(path_ / "golden.json"))) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
    (*tokenizer)->encode(c[0].get<std::string>(), {}, {}, ids, types);
    EXPECT_EQ(ids, c[1].get<std::vector<int32_t>>()) << c[0];
  }
}

TEST_F(RobertaDirectory, APrefixSpaceMakesTheFirstWordLikeTheOthers) {
  write("tokenizer_config.json", R"({"add_prefix_space": true})");
  const auto with = load_tokenizer(path_).value(),
             without = load_tokenizer(directory("roberta")).value();
  std::vector<int32_t> a, b;
  std::vector<uint8_t> types;
  with->encode("request", {}, {}, a, types);
  without->encode(" request", {}, {}, b, types);
  EXPECT_EQ(a, b);
}

// Version 4.36 lets <mask> remove the space before it unless the files say otherwise.
TEST_F(RobertaDirectory, TheMaskRemovesSpaceIfTheFilesSaySo) {
  write("special_tokens_map.json", R"({"mask_token": {"content": "<mask>", "lstrip": true}})");
  const auto tokenizer = load_tokenizer(path_).value();
  const json golden = read(directory("roberta") + "/golden.json");
  for (const json& c : golden["texts"]) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
    tokenizer->encode(c[0].get<std::string>(), {}, {}, ids, types);
    EXPECT_EQ(json(ids), c[1]) << c[0];
  }
}

TEST_F(RobertaDirectory, AddedTokensAreFound) {
  write("added_tokens.json", R"({"<old>": 502})");  // not read beside added_tokens_decoder
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"500": {"content": "<new>"},
            "501": {"content": "<left>", "lstrip": true, "rstrip": true}}})");
  const auto tokenizer = load_tokenizer(path_).value();
  EXPECT_EQ(tokenizer->vocab_size(), 502u);
  std::vector<int32_t> ids, plain;
  std::vector<uint8_t> types;
  tokenizer->encode("a <left> b<new>", {}, {}, ids, types);
  tokenizer->encode("ab", {}, {}, plain, types);
  ASSERT_EQ(ids.size(), 6u);
  EXPECT_EQ(ids[2], 501);
  EXPECT_EQ(ids[4], 500);
}

TEST_F(RobertaDirectory, DamagedFilesAreNamed) {
  const json vocabulary = read(path_ / "vocab.json");
  const auto vocabulary_without = [&](const char* token) {
    json less = vocabulary;
    less.erase(token);
    return less.dump();
  };
  write("vocab.json", vocabulary_without("a"));
  expect_refused(Code::kCorrupt, "no token for byte 97");
  write("vocab.json", vocabulary_without("</s>"));
  expect_refused(Code::kCorrupt, "sep_token");
  write("vocab.json", R"({"a": -1})");
  expect_refused(Code::kCorrupt, "must have an id from 0");
  write("vocab.json", "[]");
  expect_refused(Code::kCorrupt, "vocab.json");
  write("vocab.json", vocabulary.dump());
  for (const char* merges : {"a\n", "a b c\n", " b\n", "\xff \xff\n"}) {
    write("merges.txt", merges);
    expect_refused(Code::kCorrupt, "merges.txt");
  }
  write("merges.txt", "Q Z\n");
  expect_refused(Code::kCorrupt, "merge 1 has a part or a result");
  write("merges.txt", "a b\n");
  write("tokenizer_config.json", R"({"cls_token": 3})");
  expect_refused(Code::kInvalidArgument, "'cls_token' must be a token, found 3");
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})");
  expect_refused(Code::kCorrupt, "must have an id");
  std::filesystem::remove(path_ / "tokenizer_config.json");
  std::filesystem::remove(path_ / "vocab.json");
  expect_refused(Code::kNotFound, "vocab.json");
}

TEST_F(RobertaDirectory, OtherPipelinesAreRefusedByName) {
  const json whole = as_one_file();
  json document = whole;
  document["pre_tokenizer"]["type"] = "Metaspace";
  use_one_file(document);
  expect_refused(Code::kUnsupported, "model is \"BPE\"");
  document = whole;
  document["normalizer"] = {{"type", "NFC"}};
  use_one_file(document);
  expect_refused(Code::kUnsupported, "normalizer is \"NFC\"");
  document = whole;
  document["model"]["merges"].push_back(3);
  use_one_file(document);
  expect_refused(Code::kCorrupt, "a merge must be two tokens");
  document["model"].erase("merges");
  use_one_file(document);
  expect_refused(Code::kCorrupt, "vocab and merges");
}

class AlbertDirectory : public TokenizerDirectory {
 protected:
  AlbertDirectory() : TokenizerDirectory("albert") {}
};

TEST_F(AlbertDirectory, CaseAndAccentsCanBeKept) {
  const auto encode = [&](const std::string& text) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
    load_tokenizer(path_).value()->encode(text, {}, {}, ids, types);
    return ids;
  };
  const auto plain = encode("request");
  EXPECT_EQ(encode("R\xc3\xa9quest"), plain);
  write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(encode("r\xc3\xa9quest"), plain);
  EXPECT_NE(encode("Request"), plain);
  write("tokenizer_config.json", R"({"keep_accents": true})");
  EXPECT_EQ(encode("REQUEST"), plain);
  EXPECT_NE(encode("r\xc3\xa9quest"), plain);
}

TEST_F(AlbertDirectory, DamagedFilesAreNamed) {
  write("tokenizer_config.json", R"({"sep_token": "<none>"})");
  expect_refused(Code::kCorrupt, "sep_token");
  std::filesystem::remove(path_ / "tokenizer_config.json");
  std::filesystem::resize_file(path_ / "spiece.model", 1000);
  expect_refused(Code::kCorrupt, "spiece.model");
  write("spiece.model", "");
  expect_refused(Code::kCorrupt, "spiece.model");
}

// SentencePiece follows the offsets in its normaliser's table unchecked.
TEST_F(AlbertDirectory, AHostileTableDoesNotCrash) {
  std::ifstream file(path_ / "spiece.model", std::ios::binary);
  const std::string model((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(model.size(), 200'000u);
  Random random(4);
  int refused = 0;
  for (int round = 0; round < 100; ++round) {
    std::string damaged = model;
    const uint64_t changes = round % 2 == 0 ? 1 + random.below(4) : 10'000;
    for (uint64_t i = 0; i < changes; ++i)
      damaged[8000 + random.below(model.size() - 8000)] = static_cast<char>(random.below(256));
    write("spiece.model", damaged);
    const auto loaded = load_tokenizer(path_);
    if (!loaded) {
      ++refused;
      EXPECT_EQ(loaded.error().code, Code::kCorrupt);
      continue;
    }
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
    (*loaded)->encode("The request, na\u00efve \u4e2d\u56fd \ufb01ne \u00bd", {}, {}, ids, types);
  }
  EXPECT_GT(refused, 40);
}

}  // namespace
}  // namespace itif::text
