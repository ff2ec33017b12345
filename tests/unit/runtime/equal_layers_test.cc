// Tenants that have some layers in common, compared with the same tenants whose weights are stored
// and multiplied apart, on the tested device in every type it offers.
#include <gtest/gtest.h>

#include "make_model.h"
#include "runtime/batch/make_encoder_group.h"
#include "support/temp_directory.h"
#include "support/test_batch.h"
#include "support/tested_device.h"

namespace itif::runtime {
namespace {

using testing::TestRequest;

constexpr uint32_t kTenants = 4;
// The first layer that each tenant has fine-tuned. All have a head of their own.
constexpr uint32_t kFirstTuned[kTenants] = {3, 2, 1, 2};

model::BackboneSpec spec_of_layers() {
  model::BackboneSpec spec;
  spec.family = "bert";
  spec.layers = 3;
  spec.hidden = 64;
  spec.heads = 4;
  spec.intermediate = 128;
  spec.vocab = 131;
  spec.max_positions = 256;
  spec.type_vocab = 2;
  return spec;
}

bool is_tuned(const std::string& tensor, uint32_t first_layer) {
  for (uint32_t layer = first_layer; layer < spec_of_layers().layers; ++layer)
    if (tensor.find("layer." + std::to_string(layer) + ".") != std::string::npos) return true;
  return tensor.starts_with("classifier");
}

// Type, fusion mode.
class EqualLayers : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    const auto& [dtype, fusion] = GetParam();
    auto opened = testing::open_tested_device(dtype);
    if (!opened && opened.error().code == Code::kUnsupported)
      GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);
    for (const bool shares : {true, false}) {
      auto group = make_encoder_group(
          *device_, spec_of_layers(),
          {.max_tokens = 800, .max_requests = 8, .max_tenants = kTenants, .shares_weights = shares},
          {.fusion_mode = backbone::parse_fusion_mode(fusion).value()});
      ASSERT_TRUE(group) << group.error().message;
      (shares ? joining_ : apart_) = std::move(*group);
    }
    for (uint32_t tenant = 0; tenant < kTenants; ++tenant) {
      const std::string directory = files_.file("model" + std::to_string(tenant));
      mkmodel::ModelOptions options;
      options.spec = spec_of_layers();
      options.head = mkmodel::HeadChoice::kTokenClassification;
      options.seed = 1;
      options.initializer_range = 0.1f;
      options.layer_norm_range = 0.3f;
      options.is_tuned = [&](const std::string& tensor) {
        return is_tuned(tensor, kFirstTuned[tenant]);
      };
      options.tuned_seed = 100 + tenant;
      const Status made = mkmodel::make_model(options, directory);
      ASSERT_TRUE(made) << made.error().message;
      for (EncoderGroup* group : {joining_.get(), apart_.get()}) {
        const auto slot = group->admit(directory, nullptr);
        ASSERT_TRUE(slot) << slot.error().message;
        ASSERT_EQ(*slot, tenant);
      }
    }
    stream_ = device_->make_stream(joining_->stream_limits()).value();
  }
  void expect_equal(const std::vector<uint32_t>& lengths) {
    std::vector<TestRequest> inputs;
    for (uint32_t i = 0; i < lengths.size(); ++i) {
      TestRequest& input = inputs.emplace_back(TestRequest{.slot = i % kTenants});
      for (uint32_t token = 0; token < lengths[i]; ++token)
        input.ids.push_back((7 + 13 * i + 5 * token) % 131);
    }
    const auto joined = testing::run_batch(*joining_, *stream_, inputs);
    const auto alone = testing::run_batch(*apart_, *stream_, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_TRUE(joined[i].ok() && alone[i].ok()) << joined[i].detail << alone[i].detail;
      if (std::get<0>(GetParam()) == "f32")
        EXPECT_LE(testing::max_difference(joined[i].floats(), alone[i].floats()), 2e-4) << i;
      else
        EXPECT_GE(testing::cosine(joined[i].floats(), alone[i].floats()), 0.999) << i;
    }
  }

  testing::TempDirectory files_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<EncoderGroup> joining_, apart_;
  std::unique_ptr<device::Stream> stream_;
};

// More rows than a graph bucket holds: GEMMs of equal rows, of unequal rows, and of one range.
TEST_P(EqualLayers, AnswerAsApart) {
  expect_equal({140, 140, 140, 140});
  expect_equal({200, 90, 170, 100});
  expect_equal({250, 240, 30, 40});
}
// In a bucket, if the device has any.
TEST_P(EqualLayers, FewRowsAnswerAsApart) {
  expect_equal({3, 20, 1, 8});
}

INSTANTIATE_TEST_SUITE_P(Types, EqualLayers,
                         ::testing::Combine(::testing::Values("f32", "bf16", "f16"),
                                            ::testing::Values("fused", "thesis")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace itif::runtime
