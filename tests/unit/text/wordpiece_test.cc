// The WordPiece tokenizer compared with transformers' BertTokenizerFast (tests/data/wordpiece, made
// by tests/reference/make_wordpiece_goldens.py), and hostile input.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/random.h"
#include "support/temp_directory.h"
#include "text/load_tokenizer.h"
#include "text/unicode.h"
#include "text/wordpiece_normalizer.h"

namespace itif::text {
namespace {

using nlohmann::json;

std::string data_path(const std::string& name) {
  return ITIF_TEST_DATA "/wordpiece/" + name;
}

std::string read_data(const std::string& name) {
  std::ifstream file(data_path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

json read_golden(const std::string& name) {
  return json::parse(read_data(name));
}

struct Encoded {
  EncodeStatus status = EncodeStatus::kOk;
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
};

Encoded encode(const Tokenizer& tokenizer, std::string_view text,
               std::optional<std::string_view> pair = {}, EncodeOptions options = {}) {
  Encoded out;
  out.status = tokenizer.encode(text, pair, options, out.ids, out.types);
  return out;
}

std::unique_ptr<Tokenizer> open(const std::string& directory) {
  auto tokenizer = load_tokenizer(directory);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

// Opens the tokenizer of a golden file: a directory, or a vocabulary with settings.
std::unique_ptr<Tokenizer> open_golden(const json& golden) {
  if (golden.contains("directory")) return open(data_path(golden["directory"].get<std::string>()));
  testing::TempDirectory model;
  model.write("vocab.txt", read_data("vocabularies/" + golden["vocabulary"].get<std::string>()));
  model.write("tokenizer_config.json", golden["settings"].dump());
  return open(model.path());
}

class WordPieceGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(WordPieceGolden, EqualsTheReferenceIds) {
  const json golden = read_golden(fmt::format("{}.json", GetParam()));
  const auto tokenizer = open_golden(golden);
  ASSERT_TRUE(tokenizer);
  size_t compared = 0;
  for (const json& entry : golden["cases"]) {
    const auto text = entry["text"].get<std::string>();
    std::optional<std::string> pair;
    if (!entry["pair"].is_null()) pair = entry["pair"].get<std::string>();
    EncodeOptions options;
    const auto limit = entry["max_tokens"].get<uint32_t>();
    if (limit > 0) options = {limit, Truncation::kLongestFirst};
    const Encoded got = encode(*tokenizer, text, pair, options);
    EXPECT_EQ(got.status, EncodeStatus::kOk) << entry["text"].dump(-1, ' ', true);
    EXPECT_EQ(got.ids, entry["ids"].get<std::vector<int32_t>>())
        << entry["text"].dump(-1, ' ', true) << " | " << entry["pair"] << " | " << limit;
    EXPECT_EQ(got.types, entry["token_types"].get<std::vector<uint8_t>>()) << text;
    ++compared;
  }
  EXPECT_GT(compared, 10u);
}

INSTANTIATE_TEST_SUITE_P(All, WordPieceGolden,
                         ::testing::Values("uncased", "cased", "uncased-accents", "cased-strip",
                                           "added"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Collects the normalised text and its words, separated by spaces.
struct Words {
  std::string text;
  std::string words;
  void put(uint32_t point, uint8_t bits) {
    char bytes[kMaxUtf8Bytes];
    const std::string_view character(bytes, put_code_point(point, bytes));
    text += character;
    if (bits & (kWhitespace | kPunctuation)) end_word();
    if (bits & kWhitespace) return;
    words += character;
    if (bits & kPunctuation) end_word();
  }
  void end_word() {
    if (!words.empty() && words.back() != ' ') words += ' ';
  }
};

Words normalize(std::string_view text, const NormalizerOptions& options) {
  Words words;
  WordPieceNormalizer<Words> normalizer(options, CodePointClasses::get(), words);
  for (const char* at = text.data(); at < text.data() + text.size();)
    normalizer.feed(next_code_point(at));
  normalizer.flush();
  words.end_word();
  if (!words.words.empty()) words.words.pop_back();
  return words;
}

TEST(WordPieceNormalizer, TreatsEveryCodePointAsTheReferenceDoes) {
  const json golden = read_golden("normalizer.json");
  for (const json& entry : golden["normalizers"]) {
    NormalizerOptions options;
    options.strip_accents = entry["strip_accents"];
    options.lower_case = entry["lower_case"];
    uint32_t first = 0;
    for (const json& expected : entry["hashes"]) {
      uint64_t hash = 0xcbf29ce484222325u;
      for (uint32_t point = first; point < first + 0x1000; ++point) {
        if (point >= 0xd800 && point < 0xe000) continue;
        char bytes[kMaxUtf8Bytes];
        std::string text = "a";
        text.append(bytes, put_code_point(point, bytes));
        for (const char c : normalize(text + "b", options).words + "\n")
          hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
      }
      EXPECT_EQ(fmt::format("{:016x}", hash), expected.get<std::string>()) << fmt::format(
          "block {:X}, strip {} lower {}", first, options.strip_accents, options.lower_case);
      first += 0x1000;
    }
    EXPECT_EQ(first, 0x110000u);
  }
}

TEST(WordPieceNormalizer, OrdersMarksAsTheReferenceDoes) {
  const json golden = read_golden("normalizer.json");
  for (const json& entry : golden["normalizers"]) {
    NormalizerOptions options;
    options.strip_accents = entry["strip_accents"];
    options.lower_case = entry["lower_case"];
    for (const json& text : entry["texts"])
      EXPECT_EQ(normalize(text[0].get<std::string>(), options).text, text[1].get<std::string>())
          << text[0].dump(-1, ' ', true);
  }
}

TEST(WordPieceNormalizer, HandlesLongRunsOfMarks) {
  std::string text = "a";
  // These marks are reordered, not stripped.
  for (int i = 0; i < 10'000; ++i) text += "\U0001d16d\U0001d165";
  EXPECT_EQ(normalize(text, {}).text.size(), text.size());
}

class WordPiece : public ::testing::Test {
 protected:
  WordPiece() {
    model_.write("vocab.txt", read_data("vocabularies/uncased.txt"));
    tokenizer_ = open(model_.path());
  }
  testing::TempDirectory model_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(WordPiece, RefusesTextThatIsNotUtf8) {
  const std::string_view bad[] = {"\x80",
                                  "a\xc3",
                                  "\xc0\x80",
                                  "\xc1\xbf",
                                  "\xe0\x80\x80",
                                  "\xe2\x82",
                                  "\xed\xa0\x80",
                                  "\xed\xbf\xbf",
                                  "\xf0\x80\x80\x80",
                                  "\xf4\x90\x80\x80",
                                  "\xf5\x80\x80\x80",
                                  "\xff",
                                  "\xf0\x9f\x98",
                                  "12345678\xfe",
                                  "hello world \xe2\x28\xa1"};
  for (const std::string_view text : bad) {
    Encoded out{EncodeStatus::kOk, {7}, {1}};
    out.status = tokenizer_->encode(text, {}, {}, out.ids, out.types);
    EXPECT_EQ(out.status, EncodeStatus::kMalformed) << ::testing::PrintToString(text);
    EXPECT_EQ(out.ids, std::vector<int32_t>{7});
    EXPECT_EQ(out.types, std::vector<uint8_t>{1});
    EXPECT_EQ(encode(*tokenizer_, "good", text).status, EncodeStatus::kMalformed);
  }
}

TEST_F(WordPiece, RefusesMoreTokensThanAllowed) {
  const std::string_view text = "one two three";
  EXPECT_EQ(encode(*tokenizer_, text).ids.size(), 5u);
  EXPECT_EQ(encode(*tokenizer_, text, {}, {5}).status, EncodeStatus::kOk);
  EXPECT_EQ(encode(*tokenizer_, text, "four", {7}).status, EncodeStatus::kOk);
  for (const uint32_t limit : {0u, 1u, 2u, 4u}) {
    Encoded out{EncodeStatus::kOk, {7}, {1}};
    out.status = tokenizer_->encode(text, {}, {limit}, out.ids, out.types);
    EXPECT_EQ(out.status, EncodeStatus::kTooLong) << limit;
    EXPECT_EQ(out.ids, std::vector<int32_t>{7});
    EXPECT_EQ(out.types, std::vector<uint8_t>{1});
  }
  EXPECT_EQ(encode(*tokenizer_, text, "four", {6}).status, EncodeStatus::kTooLong);
  EXPECT_EQ(encode(*tokenizer_, "", "", {2, Truncation::kLongestFirst}).status,
            EncodeStatus::kTooLong);
}

TEST_F(WordPiece, AppendsToExistingTokens) {
  Encoded out = encode(*tokenizer_, "one");
  const Encoded first = out;
  EXPECT_EQ(tokenizer_->encode("two", "three", {}, out.ids, out.types), EncodeStatus::kOk);
  const Encoded second = encode(*tokenizer_, "two", "three");
  ASSERT_EQ(out.ids.size(), first.ids.size() + second.ids.size());
  EXPECT_TRUE(std::equal(first.ids.begin(), first.ids.end(), out.ids.begin()));
  EXPECT_TRUE(std::equal(second.ids.rbegin(), second.ids.rend(), out.ids.rbegin()));
  EXPECT_TRUE(std::equal(second.types.rbegin(), second.types.rend(), out.types.rbegin()));
}

TEST_F(WordPiece, DoesNotReallocateReservedVectors) {
  Encoded out;
  out.ids.reserve(64);
  out.types.reserve(64);
  const auto* const ids = out.ids.data();
  const auto* const types = out.types.data();
  const std::string text(1 << 16, 'a');  // one unknown word
  EXPECT_EQ(tokenizer_->encode(text, "b", {64}, out.ids, out.types), EncodeStatus::kOk);
  std::string words;
  for (int i = 0; i < 5000; ++i) words += "word ";
  EXPECT_EQ(tokenizer_->encode(words, "b", {64 - 5}, out.ids, out.types), EncodeStatus::kTooLong);
  EXPECT_EQ(out.ids.data(), ids);
  EXPECT_EQ(out.types.data(), types);
}

// No bytes may crash the tokenizer or give an id outside the vocabulary.
TEST_F(WordPiece, SurvivesRandomBytesAndRandomText) {
  const auto with_added = open(data_path("added"));
  ASSERT_TRUE(with_added);
  Random random(20241121);
  size_t accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    const uint64_t length = random.below(200);
    const bool valid = random.below(2) == 0;
    for (uint64_t i = 0; i < length; ++i) {
      if (!valid) {
        text += static_cast<char>(random.below(256));
        continue;
      }
      const uint64_t widths[] = {0x80, 0x400, 0x3000, 0x110000};
      auto point = static_cast<uint32_t>(random.below(widths[random.below(4)]));
      if (point >= 0xd800 && point < 0xe000) point = 0x301;
      char bytes[kMaxUtf8Bytes];
      text.append(bytes, put_code_point(point, bytes));
      if (random.below(40) == 0) text += "[SEP]";
    }
    EXPECT_EQ(is_utf8(text) || !valid, true);
    for (const Tokenizer* tokenizer : {tokenizer_.get(), with_added.get()}) {
      const EncodeOptions options{
          static_cast<uint32_t>(random.below(100)),
          random.below(2) ? Truncation::kRefuse : Truncation::kLongestFirst};
      const Encoded out = encode(
          *tokenizer, text, random.below(3) ? std::optional<std::string_view>{} : text, options);
      EXPECT_EQ(out.ids.size(), out.types.size());
      EXPECT_LE(out.ids.size(), options.max_tokens);
      for (const int32_t id : out.ids)
        EXPECT_LT(static_cast<uint32_t>(id), tokenizer->vocab_size());
      EXPECT_EQ(out.status == EncodeStatus::kOk, !out.ids.empty());
      accepted += out.status == EncodeStatus::kOk;
    }
  }
  EXPECT_GT(accepted, 1000u);
}

TEST_F(WordPiece, ReportsItsLimits) {
  EXPECT_EQ(tokenizer_->max_tokens(), UINT32_MAX);
  EXPECT_EQ(tokenizer_->separator_id(), 3);
  model_.write("tokenizer_config.json", R"({"model_max_length": 128})");
  EXPECT_EQ(open(model_.path())->max_tokens(), 128u);
  model_.write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(open(model_.path())->max_tokens(), UINT32_MAX);
}

}  // namespace
}  // namespace itif::text
