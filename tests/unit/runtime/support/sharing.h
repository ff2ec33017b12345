// Models that have changed parts of one base, and a group that serves them on the plain device.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/head_scratch.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {

inline constexpr uint32_t kLayers = 4;

inline model::BackboneSpec spec() {
  model::BackboneSpec spec = testing::odd_spec();
  spec.layers = kLayers;
  return spec;
}

// A model: which parts of the base it has changed, and its head.
struct Variant {
  std::set<uint32_t> tuned_layers = {};
  bool has_own_words = false;
  mkmodel::HeadChoice head = mkmodel::HeadChoice::kClassification;
  uint64_t seed = 1;  // of the changed parts and of the head; 0 means the base
};

inline bool is_tuned(const Variant& variant, const std::string& tensor) {
  if (tensor.find("word_embeddings") != std::string::npos) return variant.has_own_words;
  for (const uint32_t layer : variant.tuned_layers)
    if (tensor.find("layer." + std::to_string(layer) + ".") != std::string::npos) return true;
  return tensor.find("pooler") != std::string::npos || tensor.starts_with("classifier");
}

class Sharing : public ::testing::Test {
 protected:
  static constexpr GroupOptions kOptions{.max_tokens = 200, .max_requests = 16, .max_tenants = 6};

  Sharing() : group_(make_encoder_group(device_, spec(), kOptions).value()) {}

  std::string make(const Variant& variant) {
    const std::string directory = files_.file("model" + std::to_string(num_models_++));
    mkmodel::ModelOptions options = testing::loud_model(spec(), variant.head, 1);
    options.is_tuned = [&](const std::string& tensor) { return is_tuned(variant, tensor); };
    options.tuned_seed = variant.seed + 100;
    const Status made = mkmodel::make_model(options, directory);
    EXPECT_TRUE(made) << made.error().message;
    return directory;
  }
  // A directory that holds this content alone: names of files and inodes differ.
  std::string copy(const std::string& directory) {
    const std::string to = files_.file("model" + std::to_string(num_models_++));
    std::filesystem::copy(directory, to, std::filesystem::copy_options::recursive);
    return to;
  }
  uint32_t admit(const std::string& directory) {
    const auto slot = group_->admit(directory, nullptr);
    EXPECT_TRUE(slot) << slot.error().message;
    return *slot;
  }
  uint64_t scratch_bytes(uint32_t slot) const {
    return HeadScratch::bytes_of(group_->model(slot)->head.spec, kOptions);
  }
  static std::vector<std::byte> answer_of(EncoderGroup& group, device::Device& device,
                                          uint32_t slot) {
    const auto stream = device.make_stream(group.stream_limits()).value();
    const auto answer = testing::run_batch(group, *stream, {{.slot = slot, .ids = {1, 5, 130}}})[0];
    EXPECT_TRUE(answer.ok()) << answer.detail;
    return answer.bytes;
  }
  std::vector<std::byte> answer(uint32_t slot) { return answer_of(*group_, device_, slot); }
  // The answer of a group that has only this tenant.
  const std::vector<std::byte>& alone(const std::string& directory) {
    std::vector<std::byte>& answer = alone_[directory];
    if (!answer.empty()) return answer;
    testing::PlainDevice device;
    const auto group = make_encoder_group(device, spec(), kOptions).value();
    answer = answer_of(*group, device, group->admit(directory, nullptr).value());
    return answer;
  }
  // Bytes that a group's slabs need if each part is stored once: by comparing the variants.
  size_t bytes_of(const std::vector<Variant>& variants) {
    const auto* family = backbone::find_family("bert").value();
    size_t bytes = 0, vector_bytes = 0;
    std::set<std::pair<std::set<uint32_t>, uint64_t>> vectors;
    for (const Variant& variant : variants)
      vectors.emplace(variant.tuned_layers, variant.tuned_layers.empty() ? 0 : variant.seed);
    for (const model::WeightKind& kind : family->weight_kinds(spec())) {
      const size_t size = kind.source_shape.elements() * kind.sources.size() * sizeof(float);
      if (kind.storage == model::Storage::kVector) {
        vector_bytes += (size + 63) / 64 * 64;
        continue;
      }
      std::set<uint64_t> contents;
      for (const Variant& variant : variants)
        contents.insert(is_tuned(variant, kind.sources[0].names[0]) ? variant.seed : 0);
      bytes += contents.size() * size;
    }
    return bytes + vectors.size() * vector_bytes;
  }

  testing::PlainDevice device_;
  testing::TempDirectory files_;
  std::unique_ptr<EncoderGroup> group_;
  std::map<std::string, std::vector<std::byte>> alone_;
  int num_models_ = 0;
};

}  // namespace itif::runtime
