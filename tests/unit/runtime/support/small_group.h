// Small tenants of one backbone, each with its own weights and head, on a device of choice.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "make_model.h"
#include "runtime/batch/make_encoder_group.h"
#include "support/plain_device.h"
#include "support/temp_directory.h"

namespace itif::testing {

// Every size is odd: 3 heads of 7, and a prime intermediate size.
inline model::BackboneSpec odd_spec() {
  model::BackboneSpec spec;
  spec.family = "bert";
  spec.layers = 2;
  spec.hidden = 21;
  spec.heads = 3;
  spec.intermediate = 37;
  spec.vocab = 131;
  spec.max_positions = 41;
  spec.type_vocab = 2;
  return spec;
}

// Weights so large that every layer, bias and LayerNorm shows in the output.
inline mkmodel::ModelOptions loud_model(const model::BackboneSpec& spec, mkmodel::HeadChoice head,
                                        uint64_t seed) {
  mkmodel::ModelOptions options;
  options.spec = spec;
  options.head = head;
  options.seed = seed;
  options.initializer_range = 0.25f;
  options.layer_norm_range = 0.3f;
  return options;
}

// "plain": loops in f32; "f32" and "bf16": the host device. Returns null if this machine lacks the
// type.
inline std::unique_ptr<device::Device> make_device(const std::string& kind) {
  if (kind == "plain") return std::make_unique<PlainDevice>();
  device::DeviceOptions options;
  options.kind = "host";
  options.dtype = kind;
  options.num_threads = 1;
  auto device = device::open_device(options);
  return device ? std::move(*device) : nullptr;
}

// One tenant for each kind of head, in slots 0 to 4.
class SmallGroup {
 public:
  static constexpr mkmodel::HeadChoice kHeads[] = {
      mkmodel::HeadChoice::kNone, mkmodel::HeadChoice::kPooler, mkmodel::HeadChoice::kEmbedding,
      mkmodel::HeadChoice::kClassification, mkmodel::HeadChoice::kTokenClassification};

  explicit SmallGroup(device::Device& device, const model::BackboneSpec& spec = odd_spec(),
                      const runtime::GroupOptions& options = {.max_tokens = 200,
                                                              .max_requests = 16,
                                                              .max_tenants = 6},
                      const runtime::EncoderGroupOptions& encoder = {}) {
    auto created = runtime::make_encoder_group(device, spec, options, encoder);
    EXPECT_TRUE(created) << created.error().message;
    group = std::move(*created);
    for (size_t i = 0; i < std::size(kHeads); ++i) {
      const std::string directory = files.file("tenant" + std::to_string(i));
      EXPECT_TRUE(mkmodel::make_model(loud_model(spec, kHeads[i], i + 1), directory));
      const auto slot = group->admit(directory, nullptr);
      EXPECT_TRUE(slot) << slot.error().message;
      EXPECT_EQ(*slot, i);
      directories.push_back(directory);
    }
    stream = device.make_stream(group->stream_limits()).value();
  }

  TempDirectory files;
  std::vector<std::string> directories;
  std::unique_ptr<runtime::EncoderGroup> group;
  std::unique_ptr<device::Stream> stream;
};

}  // namespace itif::testing
