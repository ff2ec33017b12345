// Marian's tokenizer compared with transformers' MarianTokenizer
// (tests/reference/make_marian_tokenizer_goldens.py), and damaged directories.
#include "text/marian_tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "text/load_tokenizer.h"

namespace itif::text {
namespace {

using nlohmann::json;

const std::string kDirectory = std::string(ITIF_TEST_DATA) + "/marian_tokenizer";

json golden() {
  std::ifstream file(kDirectory + "/golden.json");
  return json::parse(file);
}

std::unique_ptr<Tokenizer> open() {
  auto loaded = load_tokenizer(kDirectory);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return std::move(*loaded);
}

TEST(MarianTokenizer, EncodesAsTransformers) {
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->max_tokens(), 512u);
  const json cases = golden();
  ASSERT_GE(cases["encode"].size(), 300u);
  for (const json& c : cases["encode"]) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
    ASSERT_EQ(tokenizer->encode(c[0].get<std::string>(), {}, {}, ids, types), EncodeStatus::kOk);
    EXPECT_EQ(ids, c[1].get<std::vector<int32_t>>()) << c[0];
    EXPECT_EQ(types.size(), ids.size());
  }
}

TEST(MarianTokenizer, TruncationKeepsTheEndToken) {
  const auto tokenizer = open();
  std::vector<int32_t> whole, cut;
  std::vector<uint8_t> types;
  const std::string text = "a request is cut into fragments of equal size";
  ASSERT_EQ(tokenizer->encode(text, {}, {}, whole, types), EncodeStatus::kOk);
  const EncodeOptions options{.max_tokens = 5, .truncation = Truncation::kLongestFirst};
  cut = {7};
  types = {0};
  ASSERT_EQ(tokenizer->encode(text, {}, options, cut, types), EncodeStatus::kOk);
  EXPECT_EQ(cut, (std::vector<int32_t>{7, whole[0], whole[1], whole[2], whole[3], whole.back()}));
  EXPECT_EQ(types.size(), 6u);
  EXPECT_EQ(tokenizer->encode(text, {}, {.max_tokens = 5}, cut, types), EncodeStatus::kTooLong);
  EXPECT_EQ(cut.size(), 6u);
  EXPECT_EQ(tokenizer->encode("\xff", {}, {}, cut, types), EncodeStatus::kMalformed);
  EXPECT_EQ(tokenizer->encode("a", "b", {}, cut, types), EncodeStatus::kMalformed);
}

class MarianDirectory : public ::testing::Test {
 protected:
  MarianDirectory()
      : path_(std::filesystem::temp_directory_path() / ("itif_spm_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::copy(kDirectory, path_);
  }
  ~MarianDirectory() override { std::filesystem::remove_all(path_); }
  void expect_refused(const std::string& file, const std::string& text, Code code,
                      const std::string& message) {
    std::ofstream(path_ / file) << text;
    const auto loaded = load_tokenizer(path_);
    ASSERT_FALSE(loaded) << file;
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(message), std::string::npos) << loaded.error().message;
    std::filesystem::copy_file(kDirectory + "/" + file, path_ / file,
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_TRUE(load_tokenizer(path_));
  }
  const std::filesystem::path path_;
};

TEST_F(MarianDirectory, DamagedFilesAreNamed) {
  expect_refused("source.spm", "no model", Code::kCorrupt, "source.spm: not a SentencePiece model");
  expect_refused("target.spm", "", Code::kCorrupt, "target.spm: not a SentencePiece model");
  expect_refused("vocab.json", "{\"a\": -1}", Code::kCorrupt, "vocab.json: 'a' must be an id");
  expect_refused("vocab.json", "{\"</s>\": 0}", Code::kCorrupt, "'<unk>' is missing");
  expect_refused("vocab.json", "[]", Code::kCorrupt, "vocab.json");
  expect_refused("vocab.json", R"({"</s>": 0, "<unk>": 1, "a": 1})", Code::kUnsupported,
                 "must have different ids, found 1");
  expect_refused("tokenizer_config.json", "{\"separate_vocabs\": true}", Code::kUnsupported,
                 "'separate_vocabs' must be false");
  expect_refused("tokenizer_config.json", "{\"sp_model_kwargs\": {\"reverse\": true}}",
                 Code::kUnsupported, "'sp_model_kwargs' must be empty");
  expect_refused("tokenizer_config.json", "{\"eos_token\": \"\"}", Code::kInvalidArgument,
                 "'eos_token' must be a token");
  std::filesystem::remove(path_ / "vocab.json");
  EXPECT_EQ(load_tokenizer(path_).error().code, Code::kNotFound);
}

TEST_F(MarianDirectory, DecodesAsTheNewestTransformers) {
  const json newest = golden()["newest"];
  std::ofstream(path_ / "added_tokens.json") << newest["added"];
  const auto tokenizer = load_tokenizer(path_).value();
  ASSERT_GE(newest["decode"].size(), 200u);
  for (const json& c : newest["decode"])
    EXPECT_EQ(tokenizer->decode(c[0].get<std::vector<int32_t>>()), c[1].get<std::string>()) << c[0];
}

// Without the setting, version 4.36 removes the spaces, and 5 does not.
TEST_F(MarianDirectory, SpacesAreCleanedUpIfTheSettingSaysSo) {
  json settings = json::parse(std::ifstream(path_ / "tokenizer_config.json"));
  settings["clean_up_tokenization_spaces"] = true;
  std::ofstream(path_ / "tokenizer_config.json") << settings;
  const auto tokenizer = load_tokenizer(path_).value();
  const json cases = golden()["decode"];
  ASSERT_GE(cases.size(), 300u);
  for (const json& c : cases)
    EXPECT_EQ(tokenizer->decode(c[0].get<std::vector<int32_t>>()), c[1].get<std::string>()) << c[0];
}

// vocab.json lacks pieces of the SentencePiece models, and has no piece for some ids.
TEST_F(MarianDirectory, VocabulariesWithGapsAreReadAsInTransformers) {
  const json gaps = golden()["gaps"];
  json vocabulary = json::parse(std::ifstream(path_ / "vocab.json"));
  for (const json& piece : gaps["removed"]) vocabulary.erase(piece.get<std::string>());
  std::ofstream(path_ / "vocab.json") << vocabulary;
  const auto tokenizer = load_tokenizer(path_).value();
  ASSERT_GE(gaps["encode"].size(), 70u);
  for (const json& c : gaps["encode"]) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
    ASSERT_EQ(tokenizer->encode(c[0].get<std::string>(), {}, {}, ids, types), EncodeStatus::kOk);
    EXPECT_EQ(ids, c[1].get<std::vector<int32_t>>()) << c[0];
  }
  ASSERT_GE(gaps["decode"].size(), 100u);
  for (const json& c : gaps["decode"])
    EXPECT_EQ(tokenizer->decode(c[0].get<std::vector<int32_t>>()), c[1].get<std::string>()) << c[0];
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{60'000}), "<unk>");
}

// A truncated model is refused or loaded. It never ends the process.
TEST_F(MarianDirectory, AnyPrefixOfAModelIsSafe) {
  std::ifstream file(kDirectory + "/target.spm", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  for (size_t length = 0; length < whole.size(); length += 97) {
    std::ofstream(path_ / "target.spm", std::ios::binary) << whole.substr(0, length);
    const auto loaded = load_tokenizer(path_);
    if (loaded) (*loaded)->decode(std::vector<int32_t>{5, 6, 7});
  }
}

}  // namespace
}  // namespace itif::text
