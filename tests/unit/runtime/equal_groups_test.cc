// Groups that share the weights of their tenants, compared with a group that shares nothing, on the
// tested device in every type it offers.
#include <gtest/gtest.h>

#include "make_model.h"
#include "runtime/batch/make_encoder_group.h"
#include "support/temp_directory.h"
#include "support/test_batch.h"
#include "support/tested_device.h"

namespace itif::runtime {
namespace {

// Most slots are whole pieces of the simulated GPU's memory, so that they can be shared.
model::BackboneSpec spec_of_pieces() {
  model::BackboneSpec spec;
  spec.family = "bert";
  spec.layers = 2;
  spec.hidden = 128;
  spec.heads = 4;
  spec.intermediate = 480;
  spec.vocab = 1000;
  spec.max_positions = 64;
  spec.type_vocab = 2;
  return spec;
}

class EqualGroups : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto opened = testing::open_tested_device(GetParam());
    if (!opened && opened.error().code == Code::kUnsupported)
      GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);
    apart_ = make_group(false);
    stream_ = device_->make_stream(apart_->stream_limits()).value();
  }
  std::unique_ptr<EncoderGroup> make_group(bool shares = true) {
    return make_encoder_group(*device_, spec_of_pieces(),
                              {.max_tokens = 64,
                               .max_requests = 4,
                               .max_tenants = 3,
                               .shares_weights = shares,
                               .weight_pool = &pool_})
        .value();
  }
  // A model of the base with another second layer; 0: the base.
  std::string make_model(uint64_t seed) {
    const std::string directory = files_.file("model" + std::to_string(num_models_++));
    mkmodel::ModelOptions options;
    options.spec = spec_of_pieces();
    options.head = mkmodel::HeadChoice::kPooler;
    options.seed = 1;
    options.initializer_range = 0.1f;
    options.is_tuned = [&](const std::string& tensor) {
      return seed > 0 && tensor.find("layer.1.") != std::string::npos;
    };
    options.tuned_seed = seed;
    const Status made = mkmodel::make_model(options, directory);
    EXPECT_TRUE(made) << made.error().message;
    return directory;
  }
  uint32_t admit(EncoderGroup& group, const std::string& directory) {
    const auto slot = group.admit(directory, nullptr);
    EXPECT_TRUE(slot) << slot.error().message;
    return *slot;
  }
  std::vector<std::byte> answer(EncoderGroup& group, uint32_t slot) {
    const auto result =
        testing::run_batch(group, *stream_, {{.slot = slot, .ids = {1, 5, 130, 999}}})[0];
    EXPECT_TRUE(result.ok()) << result.detail;
    return result.bytes;
  }

  std::unique_ptr<device::Device> device_;
  model::WeightPool pool_;
  std::unique_ptr<EncoderGroup> apart_;
  std::unique_ptr<device::Stream> stream_;
  testing::TempDirectory files_;
  int num_models_ = 0;
};

TEST_P(EqualGroups, AnswerAsApart) {
  const std::string base = make_model(0), copy = make_model(0), tuned = make_model(7);
  const auto of_base = answer(*apart_, admit(*apart_, base));
  const auto of_tuned = answer(*apart_, admit(*apart_, tuned));
  ASSERT_NE(of_base, of_tuned);
  auto first = make_group();
  const auto second = make_group();
  const uint32_t first_base = admit(*first, base);
  const uint64_t whole = first->weight_bytes();
  const uint32_t second_base = admit(*second, copy);
  EXPECT_LT(second->weight_bytes(), whole / 2);
  EXPECT_EQ(answer(*second, second_base), of_base);
  const uint32_t second_tuned = admit(*second, tuned);
  EXPECT_EQ(answer(*second, second_tuned), of_tuned);
  first->release(first_base);
  EXPECT_EQ(first->weight_bytes(), 0u);
  EXPECT_EQ(answer(*second, second_base), of_base);
  EXPECT_EQ(answer(*second, second_tuned), of_tuned);
  const uint32_t first_tuned = admit(*first, tuned);
  EXPECT_LT(first->weight_bytes(), whole / 2);
  EXPECT_EQ(answer(*first, first_tuned), of_tuned);
  second->release(second_tuned);
  EXPECT_EQ(answer(*first, first_tuned), of_tuned);
  first.reset();
  EXPECT_EQ(second->weight_bytes(), whole);
  EXPECT_EQ(answer(*second, second_base), of_base);
  second->release(second_base);
  EXPECT_EQ(second->weight_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Types, EqualGroups, ::testing::Values("f32", "bf16", "f16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace itif::runtime
