// itif-samples.jsonl: samples that are read, and lines that are refused by name.
#include "model/samples.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace itif::model {
namespace {

class SamplesTest : public ::testing::Test {
 protected:
  SamplesTest() { std::filesystem::create_directories(directory_); }
  ~SamplesTest() override { std::filesystem::remove_all(directory_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << text;
  }
  std::string refusal(const std::string& line) {
    write(kSamplesFile, line + "\n");
    const auto samples = read_samples(directory_);
    EXPECT_FALSE(samples) << line;
    if (samples) return "";
    EXPECT_NE(samples.error().message.find(directory_), std::string::npos)
        << samples.error().message;
    return samples.error().message;
  }

  const std::string directory_ =
      (std::filesystem::temp_directory_path() / ("itif-samples-" + std::to_string(getpid())))
          .string();
};

TEST_F(SamplesTest, DirectoryWithoutTheFileHasNone) {
  const auto samples = read_samples(directory_);
  ASSERT_TRUE(samples);
  EXPECT_TRUE(samples->empty());
}

TEST_F(SamplesTest, ReadsInputsAndExpectations) {
  write("cat.bin", std::string("\1\0\2", 3));
  write(
      kSamplesFile,
      "{\"name\": \"short\", \"ids\": [101, 70000], \"kind\": \"logits\", \"expect\": {\"values\": "
      "[[1, 2.5], [-3, 4]], \"tolerance\": 0.25}}\n"
      "\r\n"
      "{\"text\": \"a\", \"pair\": \"b\", \"truncate\": true, \"expect\": {\"label\": \"yes\"}}\n"
      "{\"image_u8\": \"cat.bin\", \"expect\": {\"values\": [1]}}\n"
      "{\"ids\": [7], \"kind\": \"text\", \"expect\": {\"text\": \"\"}}\n"
      "{\"ids\": [7], \"kind\": \"tokens\", \"expect\": {\"tokens\": []}}");
  const auto samples = read_samples(directory_);
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->size(), 5u);
  const Sample& first = samples->at(0);
  EXPECT_EQ(first.origin, directory_ + "/itif-samples.jsonl:1 (short)");
  EXPECT_EQ(first.payload_kind, "tokens_u32");
  EXPECT_EQ(first.result_kind, "logits");
  uint32_t ids[2];
  ASSERT_EQ(first.payload.size(), sizeof ids);
  std::memcpy(ids, first.payload.data(), sizeof ids);
  EXPECT_EQ(ids[1], 70000u);
  EXPECT_EQ(std::get<ExpectedValues>(first.expected).values, (std::vector<float>{1, 2.5, -3, 4}));
  EXPECT_EQ(std::get<ExpectedValues>(first.expected).tolerance, 0.25);
  EXPECT_EQ(samples->at(1).origin, directory_ + "/itif-samples.jsonl:3");
  EXPECT_EQ(samples->at(1).payload.size(), 3u) << "U+0000 separates the texts";
  EXPECT_TRUE(samples->at(1).truncate);
  EXPECT_EQ(samples->at(1).result_kind, "default");
  EXPECT_EQ(std::get<ExpectedLabel>(samples->at(1).expected).label, "yes");
  EXPECT_EQ(samples->at(2).payload.size(), 3u);
  EXPECT_EQ(std::get<ExpectedValues>(samples->at(2).expected).tolerance, kDefaultTolerance);
  EXPECT_TRUE(std::get<ExpectedText>(samples->at(3).expected).text.empty());
  EXPECT_TRUE(std::get<ExpectedTokens>(samples->at(4).expected).ids.empty());
}

TEST_F(SamplesTest, RefusesWrongLinesByName) {
  const struct {
    const char* line;
    const char* says;
  } cases[] = {
      {"[1]", "jsonl:1"},
      {R"({"ids": [1]})", "'expect'"},
      {R"({"ids": [1], "expect": {}})", "one of 'values'"},
      {R"({"ids": [1], "expect": {"values": [1], "label": "a"}})", "one of 'values'"},
      {R"({"ids": [1], "expect": {"values": []}})", "'values' is empty"},
      {R"({"ids": [1], "expect": {"values": ["1"]}})", "must hold numbers"},
      {R"({"ids": [1], "expect": {"values": [1e99]}})", "must hold numbers"},
      {R"({"ids": [1], "expect": {"values": 1}})", "must be an array"},
      {R"({"ids": [1], "expect": {"values": [1], "tolerance": -1}})", "tolerance"},
      {R"({"ids": [1], "expect": {"label": "a", "tolerance": 1}})", "'tolerance' belongs"},
      {R"({"ids": [1], "expect": {"tokens": [1.5]}})", "must hold ids"},
      {R"({"ids": [], "expect": {"label": "a"}})", "'ids' is empty"},
      {R"({"ids": [-1], "expect": {"label": "a"}})", "must hold ids"},
      {R"({"ids": [4294967296], "expect": {"label": "a"}})", "must hold ids"},
      {R"({"text": "a", "ids": [1], "expect": {"label": "a"}})", "one of 'text'"},
      {R"({"expect": {"label": "a"}})", "one of 'text'"},
      {R"({"ids": [1], "pair": "b", "expect": {"label": "a"}})", "belong to a 'text'"},
      {R"({"text": 1, "expect": {"label": "a"}})", "'text' must be a string"},
      {R"({"image_f32": "/etc/passwd", "expect": {"label": "a"}})", "file of the directory"},
      {R"({"image_f32": "..", "expect": {"label": "a"}})", ""},
      {R"({"image_f32": "none.bin", "expect": {"label": "a"}})", "none.bin"},
      {R"({"ids": [1], "expect": {"label": "a"}, "expects": 1})", "unknown key 'expects'"},
      {R"({"ids": [1], "ids": [2], "expect": {"label": "a"}})", "jsonl:1"},
  };
  for (const auto& one : cases)
    EXPECT_NE(refusal(one.line).find(one.says), std::string::npos)
        << one.line << ": " << refusal(one.line);
  std::string many;
  for (size_t i = 0; i <= kMaxSamples; ++i)
    many += R"({"ids": [1], "expect": {"label": "a"}})"
            "\n";
  EXPECT_NE(refusal(many).find("more than 64"), std::string::npos);
}

}  // namespace
}  // namespace itif::model
