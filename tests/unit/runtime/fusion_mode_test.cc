// Compares the thesis and fused modes: several tenants in one batch, each with its own weights,
// biases and LayerNorms, padded or not.
#include <gtest/gtest.h>

#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::SmallGroup;
using testing::TestRequest;

class FusionModeTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device_ = testing::make_device(GetParam());
    if (!device_) GTEST_SKIP() << "this machine has no " << GetParam();
  }
  // Two requests of every tenant. Those shorter than `padded_to` are padded to it.
  static std::vector<TestRequest> inputs(uint32_t padded_to) {
    std::vector<TestRequest> all;
    for (uint32_t slot = 0; slot < std::size(SmallGroup::kHeads); ++slot)
      for (const uint32_t length : {3 + slot, 11 - slot}) {
        TestRequest input{.slot = slot, .kind = wire::ResultKind::kHidden};
        for (uint32_t i = 0; i < length; ++i)
          input.ids.push_back((7 * slot + 13 * i + length) % 131);
        input.padding = padded_to > length ? padded_to - length : 0;
        all.push_back(std::move(input));
      }
    return all;
  }
  std::vector<Answer> run(backbone::FusionMode fusion_mode,
                          const std::vector<TestRequest>& inputs) {
    SmallGroup small(*device_, testing::odd_spec(),
                     {.max_tokens = 200, .max_requests = 16, .max_tenants = 6},
                     {.fusion_mode = fusion_mode});
    return testing::run_batch(*small.group, *small.stream, inputs);
  }

  std::unique_ptr<device::Device> device_;
};
INSTANTIATE_TEST_SUITE_P(Devices, FusionModeTest, ::testing::Values("plain", "f32", "bf16"),
                         [](const auto& info) { return info.param; });

TEST_P(FusionModeTest, BothFusionModesAgree) {
  for (const uint32_t padded_to : {0u, 11u, 17u}) {
    const std::vector<TestRequest> all = inputs(padded_to);
    const auto fused = run(backbone::FusionMode::kFused, all);
    const auto thesis = run(backbone::FusionMode::kThesis, all);
    for (size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(std::to_string(i) + ", padded to " + std::to_string(padded_to));
      ASSERT_TRUE(fused[i].ok() && thesis[i].ok()) << fused[i].detail << thesis[i].detail;
      if (GetParam() == "bf16")
        EXPECT_GE(testing::cosine(thesis[i].floats(), fused[i].floats()), 0.999);
      else
        EXPECT_LE(testing::max_difference(thesis[i].floats(), fused[i].floats()), 1e-4);
    }
  }
}

// The same ids give a different result for each tenant.
TEST_P(FusionModeTest, EachTenantHasItsOwnParameters) {
  std::vector<TestRequest> all = inputs(0);
  for (TestRequest& input : all) input.ids = all[0].ids;
  const auto answers = run(backbone::FusionMode::kThesis, all);
  for (size_t i = 0; i + 2 < all.size(); i += 2)
    EXPECT_GT(testing::max_difference(answers[i].floats(), answers[i + 2].floats()), 0.1) << i;
}

}  // namespace
}  // namespace itif::runtime
