// A group of small models with adapters, of each family and device, for the tests of adapters.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "make_adapter.h"
#include "runtime/batch/executor.h"
#include "support/merged_model.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {

using testing::Answer;
using testing::TestRequest;

// Family and device.
using AdapterParam = std::tuple<std::string, std::string>;

class Adapters : public ::testing::TestWithParam<AdapterParam> {
 protected:
  static constexpr GroupOptions kOptions{.max_tokens = 300, .max_requests = 24, .max_tenants = 8};

  void SetUp() override {
    device_ = testing::make_device(std::get<1>(GetParam()));
    if (!device_) GTEST_SKIP() << "this machine has no " << std::get<1>(GetParam());
    spec_ = spec_of(std::get<0>(GetParam()));
    base_ = make("base", 1);
    group_ = make_group(*device_);
  }
  static model::BackboneSpec spec_of(const std::string& family) {
    model::BackboneSpec spec = backbone::find_preset(family + "-tiny").value()->spec;
    spec.layers = 2;
    spec.hidden = 24;
    spec.heads = 3;
    spec.intermediate = 37;
    spec.vocab = 131;
    spec.max_positions = 48;
    if (family == "albert")
      spec.own = {{"embedding_size", uint64_t{10}},
                  {"num_hidden_groups", uint64_t{1}},
                  {"inner_group_num", uint64_t{1}}};
    return spec;
  }
  std::unique_ptr<EncoderGroup> make_group(
      device::Device& device,
      backbone::FusionMode fusion_mode = backbone::FusionMode::kFused) const {
    auto group = make_encoder_group(device, spec_, kOptions, {.fusion_mode = fusion_mode});
    EXPECT_TRUE(group) << group.error().message;
    return std::move(*group);
  }
  std::string make(const std::string& name, uint64_t seed,
                   mkmodel::HeadChoice head = mkmodel::HeadChoice::kClassification) {
    const std::string directory = files_.file(name);
    const Status made = mkmodel::make_model(testing::loud_model(spec_, head, seed), directory);
    EXPECT_TRUE(made) << made.error().message;
    return directory;
  }
  std::string make_adapter(const std::string& name, mkmodel::AdapterOptions options) {
    options.spec = spec_;
    options.range = 0.3f;
    const std::string directory = files_.file(name);
    const Status made = mkmodel::make_adapter(options, directory);
    EXPECT_TRUE(made) << made.error().message;
    return directory;
  }
  // The names of all of the family's modules that can be changed.
  std::vector<std::string> all_modules() const {
    std::set<std::string> names;
    const auto* family = backbone::find_family(spec_.family).value();
    for (const model::WeightKind& kind : family->weight_kinds(spec_))
      if (kind.storage == model::Storage::kMatrix)
        for (const model::Source& source : kind.sources) {
          std::string module = source.names.back().substr(0, source.names.back().size() - 7);
          names.insert(module);
        }
    return {names.begin(), names.end()};
  }
  uint32_t admit(const model::ModelFiles& files) {
    const auto slot = group_->admit(files, nullptr);
    EXPECT_TRUE(slot) << slot.error().message;
    return slot ? *slot : UINT32_MAX;
  }
  // Requests of the slots, in this order, each of its own length.
  static std::vector<TestRequest> requests_of(const std::vector<uint32_t>& slots) {
    std::vector<TestRequest> requests;
    uint32_t next = 7;
    for (size_t i = 0; i < slots.size(); ++i) {
      TestRequest& request = requests.emplace_back(TestRequest{.slot = slots[i]});
      for (size_t t = 0; t < 3 + 5 * i % 16; ++t) request.ids.push_back(5 + next++ * 37 % 120);
    }
    return requests;
  }
  static std::vector<Answer> run(EncoderGroup& group, device::Device& device,
                                 const std::vector<TestRequest>& requests) {
    const auto stream = device.make_stream(group.stream_limits()).value();
    stream->attach_thread();
    return testing::run_batch(group, *stream, requests);
  }
  // Expects the answers of `requests`, of which those of a slot equal those of a whole model.
  void expect_answers(EncoderGroup& group, const std::vector<TestRequest>& requests,
                      const std::map<uint32_t, std::string>& models) {
    const std::vector<Answer> answers = run(group, *device_, requests);
    for (const auto& [slot, directory] : models) {
      const auto alone = make_group(*device_);
      const auto own = alone->admit(directory, nullptr);
      ASSERT_TRUE(own) << own.error().message;
      for (size_t i = 0; i < requests.size(); ++i) {
        if (requests[i].slot != slot) continue;
        TestRequest single = requests[i];
        single.slot = *own;
        const Answer expected = run(*alone, *device_, {single})[0];
        ASSERT_TRUE(answers[i].ok()) << answers[i].detail;
        ASSERT_TRUE(expected.ok()) << expected.detail;
        ASSERT_EQ(answers[i].floats().size(), expected.floats().size());
        EXPECT_LE(testing::max_difference(answers[i].floats(), expected.floats()), tolerance())
            << "slot " << slot << ", request " << i;
      }
    }
  }
  double tolerance() const { return std::get<1>(GetParam()) == "bf16" ? 0.15 : 2e-4; }
  std::string merged(const std::string& adapter, const std::string& base) {
    const std::string out = files_.file("merged" + std::to_string(num_merged_++));
    testing::merge_model(base, adapter, out);
    return out;
  }
  std::string merged(const std::string& adapter) { return merged(adapter, base_); }

  testing::TempDirectory files_;
  std::unique_ptr<device::Device> device_;
  model::BackboneSpec spec_;
  std::string base_;
  std::unique_ptr<EncoderGroup> group_;
  int num_merged_ = 0;
};

inline wire::ResultKind logits() {
  return wire::ResultKind::kLogits;
}

}  // namespace itif::runtime
