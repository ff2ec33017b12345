#include "model/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include <filesystem>

#include "support/safetensors_text.h"
#include "support/temp_directory.h"

namespace itif::model {
namespace {

using testing::entry;
using testing::f32_bytes;
using testing::safetensors;

std::string one_tensor(const std::string& name, float value) {
  return safetensors("{" + entry(name, "F32", "[1]", 0, 4) + "}", f32_bytes({value}));
}

std::string index_of(const std::string& pairs) {
  return "{\"weight_map\":{" + pairs + "}}";
}

TEST(Checkpoint, ReadsEveryFloatingType) {
  testing::TempDirectory directory;
  const uint16_t bf16 = 0x3fc0, f16 = 0x4100;  // 1.5, 2.5
  std::string data = f32_bytes({1, -2});
  data.append(reinterpret_cast<const char*>(&bf16), 2)
      .append(reinterpret_cast<const char*>(&f16), 2);
  directory.write("model.safetensors", safetensors("{" + entry("w", "F32", "[2,1]", 0, 8) + "," +
                                                       entry("b", "BF16", "[1]", 8, 10) + "," +
                                                       entry("h", "F16", "[1]", 10, 12) + "}",
                                                   data));
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  EXPECT_EQ(checkpoint.read("w", {2, 1}).value().view.at(1), -2);
  EXPECT_EQ(checkpoint.read("b", {1}).value().view.at(0), 1.5f);
  EXPECT_EQ(checkpoint.read("h", {1}).value().view.at(0), 2.5f);
  EXPECT_TRUE(checkpoint.unchanged());
}

TEST(Checkpoint, ShardsFormOneCheckpoint) {
  testing::TempDirectory directory;
  directory.write("model-1.safetensors", one_tensor("a", 1));
  directory.write("model-2.safetensors", one_tensor("b", 2));
  directory.write("model.safetensors.index.json",
                  index_of("\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\""));
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  EXPECT_EQ(checkpoint.read("a", {1}).value().view.at(0), 1);
  EXPECT_EQ(checkpoint.read("b", {1}).value().view.at(0), 2);
}

TEST(Checkpoint, WrongTensorsAreNamedWithExpectedAndFound) {
  testing::TempDirectory directory;
  const std::string file = directory.write(
      "model.safetensors", safetensors("{" + entry("w", "F32", "[2,3]", 0, 24) + "," +
                                           entry("i", "I64", "[1]", 24, 32) + "}",
                                       std::string(32, '\0')));
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  const struct {
    const char* name;
    Shape shape;
    std::string message;
  } rows[] = {
      {"x", {4, 5}, file + ": tensor \"x\": expected [4, 5], found none"},
      {"w", {3, 2}, file + ": tensor \"w\": expected [3, 2], found [2, 3]"},
      {"w", {6}, file + ": tensor \"w\": expected [6], found [2, 3]"},
      {"w", {2, 3, 1}, file + ": tensor \"w\": expected [2, 3, 1], found [2, 3]"},
      {"i", {1}, file + ": tensor \"i\": expected F32, F16 or BF16, found I64"},
  };
  for (const auto& row : rows) {
    const auto result = checkpoint.read(row.name, row.shape);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_EQ(result.error().message, row.message);
  }
}

TEST(Checkpoint, ValuesThatAreNotFiniteAreRefusedByTensor) {
  const uint16_t bf16[] = {0x3f80, 0x7f80}, f16[] = {0x7c01, 0x3c00};  // 1, inf; nan, 1
  const uint32_t f32[] = {0x3f800000, 0x7f7fffff, 0xff800000};         // 1, the largest, -inf
  std::string data(reinterpret_cast<const char*>(f32), 12);
  data.append(reinterpret_cast<const char*>(bf16), 4).append(reinterpret_cast<const char*>(f16), 4);
  testing::TempDirectory directory;
  directory.write("model.safetensors", safetensors("{" + entry("good", "F32", "[2]", 0, 8) + "," +
                                                       entry("w", "F32", "[1]", 8, 12) + "," +
                                                       entry("b", "BF16", "[2]", 12, 16) + "," +
                                                       entry("h", "F16", "[2]", 16, 20) + "}",
                                                   data));
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  EXPECT_TRUE(checkpoint.read("good", {2})) << "the largest number is finite";
  for (const auto& [name, count, said] : {std::tuple("w", 1u, "\"w\": element 0 is -inf"),
                                          {"b", 2u, "\"b\": element 1 is inf"},
                                          {"h", 2u, "\"h\": element 0 is nan"}}) {
    const auto tensor = checkpoint.read(name, {count});
    ASSERT_FALSE(tensor) << name;
    EXPECT_EQ(tensor.error().code, Code::kInvalidArgument);
    EXPECT_NE(tensor.error().message.find(said), std::string::npos) << tensor.error().message;
  }
}

// Regression: conversion to f16 made weights of 65520 and more infinite, without an error.
TEST(Checkpoint, ValuesBeyondTheStoredTypeAreRefusedByTensor) {
  const struct {
    const char* dtype;
    uint32_t bits;
    DType stored;
    std::string refusal;  // empty: accepted
  } rows[] = {
      {"F32", 0x477fefff, DType::kF16, ""},  // 65519.996
      {"F32", 0xc77ff000, DType::kF16, "is -65520, and f16 cannot hold it: use a group of another"},
      {"F32", 0xc77ff000, DType::kF32, ""},
      {"F32", 0xc77ff000, DType::kBF16, ""},
      {"F32", 0x7f7f7fff, DType::kBF16, ""},
      {"F32", 0x7f7f8000, DType::kBF16, "is 3.3961775e+38, and bf16 cannot hold it"},
      {"F32", 0x7f7f8000, DType::kF32, ""},
      {"BF16", 0x477f, DType::kF16, ""},  // 65280
      {"BF16", 0xc780, DType::kF16, "is -65536, and f16 cannot hold it"},
      {"BF16", 0xc780, DType::kBF16, ""},
      {"F16", 0xfbff, DType::kF16, ""},
  };
  for (const auto& row : rows) {
    const size_t bytes = std::string_view(row.dtype) == "F32" ? 4 : 2;
    std::string data(2 * bytes, '\0');
    std::memcpy(data.data() + bytes, &row.bits, bytes);
    testing::TempDirectory directory;
    directory.write("model.safetensors",
                    safetensors("{" + entry("w", row.dtype, "[2]", 0, 2 * bytes) + "}", data));
    const auto tensor = Checkpoint::open(directory.path())->read("w", {2}, row.stored);
    ASSERT_EQ(tensor.has_value(), row.refusal.empty()) << row.dtype << " " << row.bits;
    if (tensor) continue;
    EXPECT_EQ(tensor.error().code, Code::kInvalidArgument);
    EXPECT_NE(tensor.error().message.find("\"w\": element 1 " + row.refusal), std::string::npos)
        << tensor.error().message;
  }
}

// Values are checked in blocks of 1,024.
TEST(Checkpoint, TheFirstValueThatIsNotFiniteIsFoundAnywhere) {
  constexpr size_t kCount = 2500;
  const std::string entries = "{" + entry("w", "F32", "[2500]", 0, 4 * kCount) + "," +
                              entry("h", "BF16", "[2500]", 4 * kCount, 6 * kCount) + "}";
  for (const size_t at : {0, 1, 1023, 1024, 2047, 2048, 2498, 2499}) {
    // -1; then infinities from `at` on.
    std::string data;
    for (size_t i = 0; i < kCount; ++i) data.append(i < at ? "\0\0\x80\xbf" : "\0\0\x80\x7f", 4);
    for (size_t i = 0; i < kCount; ++i) data.append(i < at ? "\x80\xbf" : "\x80\x7f", 2);
    testing::TempDirectory directory;
    directory.write("model.safetensors", safetensors(entries, data));
    const auto checkpoint = Checkpoint::open(directory.path()).value();
    for (const char* name : {"w", "h"}) {
      const auto tensor = checkpoint.read(name, {kCount});
      ASSERT_FALSE(tensor) << name << " " << at;
      EXPECT_NE(tensor.error().message.find(fmt::format("element {} is inf", at)),
                std::string::npos)
          << tensor.error().message;
    }
  }
}

TEST(Checkpoint, DirectoriesWithoutUsableWeightsAreRefused) {
  testing::TempDirectory directory;
  EXPECT_EQ(Checkpoint::open(directory.path()).error().code, Code::kNotFound);
  EXPECT_EQ(Checkpoint::open(directory.file("none")).error().code, Code::kNotFound);
  directory.write("pytorch_model.bin", "x");
  const auto torch = Checkpoint::open(directory.path());
  EXPECT_EQ(torch.error().code, Code::kUnsupported);
  EXPECT_NE(torch.error().message.find("safe_serialization"), std::string::npos);
  directory.write("model.safetensors", "short");
  EXPECT_NE(Checkpoint::open(directory.path()).error().message.find("at least 8 bytes, found 5"),
            std::string::npos);
  std::filesystem::remove(directory.file("model.safetensors"));
  std::filesystem::create_directory(directory.file("model.safetensors"));
  EXPECT_NE(Checkpoint::open(directory.path()).error().message.find("not a regular file"),
            std::string::npos);
}

TEST(Checkpoint, HostileIndexesAreRefused) {
  const struct {
    std::string index, expected;
  } rows[] = {
      {"[]", "expected a JSON object"},
      {"{}", "expected an object 'weight_map', found none"},
      {"{\"weight_map\":[]}", "expected an object 'weight_map', found []"},
      {index_of("\"a\":3"), "tensor \"a\": expected a file name, found 3"},
      {index_of("\"a\":\"../model-1.safetensors\""), "file in this directory"},
      {index_of("\"a\":\"/etc/passwd\""), "file in this directory"},
      {index_of("\"a\":\"sub/model-1.safetensors\""), "file in this directory"},
      {index_of("\"a\":\"..\""), "file in this directory"},
      {index_of("\"a\":\"\""), "file in this directory"},
      {index_of("\"a\":\"model-1.safetensors\\u0000x\""), "file in this directory"},
      {index_of("\"a\":\"model-9.safetensors\""), "model-9.safetensors: No such file"},
      {index_of("\"zz\":\"model-1.safetensors\""), "tensor \"zz\": expected it in"},
      {index_of("\"a\":\"model-2.safetensors\",\"b\":\"model-1.safetensors\""),
       "tensor \"a\": expected it in"},
      {index_of("\"a\":\"model-1.safetensors\",\"b\":\"model-3.safetensors\""),
       "tensor \"a\" is also in"},
  };
  for (const auto& row : rows) {
    testing::TempDirectory directory;
    directory.write("model-1.safetensors", one_tensor("a", 1));
    directory.write("model-2.safetensors", one_tensor("b", 2));
    directory.write("model-3.safetensors", one_tensor("a", 3));
    directory.write("model.safetensors.index.json", row.index);
    const auto result = Checkpoint::open(directory.path());
    ASSERT_FALSE(result) << row.index;
    std::string message = result.error().message;
    if (row.expected == "tensor \"a\" is also in") {
      EXPECT_NE(message.find(" is also in "), std::string::npos) << message;
    } else {
      EXPECT_NE(message.find(row.expected), std::string::npos) << row.index << "\n" << message;
    }
  }
}

TEST(Checkpoint, DetectsFilesThatChangeDuringReading) {
  testing::TempDirectory directory;
  const std::string file = directory.write("model.safetensors", one_tensor("a", 1));
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  std::filesystem::resize_file(file, 20);
  const auto read = checkpoint.read("a", {1});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  EXPECT_NE(read.error().message.find("truncated while it was read"), std::string::npos);
  EXPECT_EQ(checkpoint.unchanged().error().code, Code::kCorrupt);
}

TEST(Checkpoint, ChoosesTheFirstNamePresent) {
  testing::TempDirectory directory;
  directory.write(
      "model.safetensors",
      safetensors("{" + entry("bert.embeddings.word_embeddings.weight", "F32", "[1]", 0, 4) + "," +
                      entry("bert.embeddings.LayerNorm.gamma", "F32", "[1]", 4, 8) + "," +
                      entry("classifier.bias", "F32", "[1]", 8, 12) + "}",
                  std::string(12, '\0')));
  const auto checkpoint = Checkpoint::open(directory.path()).value();
  const auto choose = [&](std::vector<std::string> names) { return checkpoint.choose(names); };
  EXPECT_EQ(choose({"embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight"}),
            "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(choose({"embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.weight",
                    "embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.gamma"}),
            "bert.embeddings.LayerNorm.gamma");
  EXPECT_EQ(choose({"classifier.bias"}), "classifier.bias");
  // An absent tensor gets the prefix of its neighbours.
  EXPECT_EQ(choose({"encoder.layer.0.output.dense.bias", "bert.encoder.layer.0.output.dense.bias"}),
            "bert.encoder.layer.0.output.dense.bias");
  EXPECT_EQ(choose({"nothing", "like.it"}), "nothing");
}

}  // namespace
}  // namespace itif::model
