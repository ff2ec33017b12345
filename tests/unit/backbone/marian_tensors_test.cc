// Marian checkpoints that store more than the shared embedding: transformers uses each tensor that
// differs, so a model with one is refused by the tensor's name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backbone/open_model.h"
#include "support/safetensors_text.h"
#include "support/temp_directory.h"
#include "tensor/dtype.h"

namespace itif::backbone {
namespace {

using nlohmann::json;

constexpr const char* kShared = "model.shared.weight";
constexpr const char* kAliases[] = {"lm_head.weight", "model.encoder.embed_tokens.weight",
                                    "model.decoder.embed_tokens.weight"};
constexpr const char* kPositions[] = {"model.encoder.embed_positions.weight",
                                      "model.decoder.embed_positions.weight"};

// A copy of a small MarianMTModel whose tensors can be replaced.
class MarianTensors : public ::testing::Test {
 protected:
  MarianTensors() {
    std::filesystem::copy(ITIF_TEST_DATA "/generation/greedy", model_);
    const std::string file = folder_.read("model/model.safetensors");
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), 8);
    header_ = json::parse(file.substr(8, header_bytes));
    data_ = file.substr(8 + header_bytes);
    const json config = json::parse(folder_.read("model/config.json"));
    positions_ = config["max_position_embeddings"];
    hidden_ = config["d_model"];
  }

  std::string bytes_of(const std::string& name) const {
    const json& range = header_[name]["data_offsets"];
    return data_.substr(range[0], range[1].get<size_t>() - range[0].get<size_t>());
  }
  void set(const std::string& name, const json& shape, const std::string& bytes,
           const char* dtype = "F32") {
    header_[name] = {{"dtype", dtype},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + bytes.size()}}};
    data_ += bytes;
  }
  // Removes a tensor; its bytes go, too, as files with unused bytes are damaged.
  void remove(const std::string& name) {
    const json range = header_[name]["data_offsets"];
    const size_t begin = range[0], size = range[1].get<size_t>() - begin;
    header_.erase(name);
    data_.erase(begin, size);
    for (auto& [other, entry] : header_.items())
      if (entry.contains("data_offsets") && entry["data_offsets"][0] > json(begin))
        for (json& offset : entry["data_offsets"]) offset = offset.get<size_t>() - size;
  }
  // The error of the model as it now is; empty: there is none.
  std::string refusal() {
    folder_.write("model/model.safetensors", testing::safetensors(header_.dump(), data_));
    const auto opened = open_model(model_);
    return opened ? std::string() : opened.error().message;
  }
  // Source: MarianSinusoidalPositionalEmbedding, with angles as numpy computes them.
  std::vector<float> sinusoids() const {
    std::vector<float> table;
    for (uint32_t position = 0; position < positions_; ++position)
      for (uint32_t i = 0; i < hidden_; ++i) {
        const uint32_t pair = i % (hidden_ / 2);
        const double angle = position / std::pow(10000, 2.0 * pair / hidden_);
        table.push_back(static_cast<float>(i < hidden_ / 2 ? std::sin(angle) : std::cos(angle)));
      }
    return table;
  }
  json table_shape() const { return {positions_, hidden_}; }

  testing::TempDirectory folder_;
  const std::string model_ = folder_.file("model");
  json header_;
  std::string data_;
  uint32_t positions_ = 0, hidden_ = 0;
};

TEST_F(MarianTensors, OtherEmbeddingsAreRefusedByName) {
  const json shape = header_[kShared]["shape"];
  for (const char* alias : kAliases) {
    std::string bytes = bytes_of(kShared);
    bytes[bytes.size() - 1] ^= 1;
    const auto header = header_;
    const auto data = data_;
    set(alias, shape, bytes);
    const std::string message = refusal();
    EXPECT_NE(message.find(std::string("\"") + alias + "\": must be equal to \"" + kShared + "\""),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
    header_ = header;
    data_ = data;
  }
}

// As in published checkpoints.
TEST_F(MarianTensors, EqualEmbeddingsAreAccepted) {
  for (const char* alias : kAliases) set(alias, header_[kShared]["shape"], bytes_of(kShared));
  EXPECT_EQ(refusal(), "");
}

TEST_F(MarianTensors, EmbeddingsAreComparedWithoutTheSharedOne) {
  const json shape = header_[kShared]["shape"];
  std::string bytes = bytes_of(kShared);
  remove(kShared);
  set(kAliases[0], shape, bytes);
  EXPECT_EQ(refusal(), "");
  bytes[0] ^= 1;
  set(kAliases[1], shape, bytes);
  const std::string message = refusal();
  EXPECT_NE(message.find(std::string("\"") + kAliases[1] + "\": must be equal to \"" + kAliases[0]),
            std::string::npos)
      << message;
}

TEST_F(MarianTensors, AnEmbeddingOfAnotherShapeIsRefused) {
  set(kAliases[0], {1, hidden_}, std::string(4 * hidden_, '\0'));
  const std::string message = refusal();
  EXPECT_NE(message.find("\"lm_head.weight\": expected ["), std::string::npos) << message;
}

TEST_F(MarianTensors, OtherPositionsAreRefusedByName) {
  for (const char* name : kPositions) {
    const auto header = header_;
    const auto data = data_;
    std::vector<float> table = sinusoids();
    table.back() += 1e-4f;
    set(name, table_shape(), testing::f32_bytes(table));
    const std::string message = refusal();
    EXPECT_NE(message.find(std::string("\"") + name + "\": must be the sinusoids"),
              std::string::npos)
        << message;
    header_ = header;
    data_ = data;
  }
}

// Positions are sines: rounding to the type of the file changes them by at most half a unit.
TEST_F(MarianTensors, StoredSinusoidsAreAccepted) {
  const std::vector<float> table = sinusoids();
  set(kPositions[0], table_shape(), testing::f32_bytes(table));
  std::string halves;
  for (const float value : table) {
    const uint16_t bits = f32_to_f16(value);
    halves.append(reinterpret_cast<const char*>(&bits), 2);
  }
  set(kPositions[1], table_shape(), halves, "F16");
  EXPECT_EQ(refusal(), "");
  std::string rounded;
  for (const float value : table) {
    const uint16_t bits = f32_to_bf16(value);
    rounded.append(reinterpret_cast<const char*>(&bits), 2);
  }
  remove(kPositions[0]);
  set(kPositions[0], table_shape(), rounded, "BF16");
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace itif::backbone
