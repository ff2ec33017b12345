// Tenants that have fine-tuned some layers run in one GEMM in the layers that they have in common.
#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"
#include "support/shared_gemms.h"

namespace itif::runtime {
namespace {

using testing::TestRequest;

class JoinedGemms : public SharedGemms {
 protected:
  static constexpr const char* kPlanners[] = {"packed", "naive",  "turbo",  "itif",
                                              "joint",  "concat", "slotted"};

  size_t num_ranges() const {
    size_t sum = 0;
    for (const Ranges& ranges : gemms_) sum += ranges.size();
    return sum;
  }
  // One request of three tokens to each tenant, in this order.
  static std::vector<TestRequest> one_each(const std::vector<uint32_t>& slots) {
    std::vector<TestRequest> inputs;
    for (const uint32_t slot : slots) inputs.push_back({.slot = slot, .ids = {1, 5, 130}});
    return inputs;
  }
  static std::vector<Variant> random_variants(Random& random) {
    std::vector<Variant> variants(2 + random.below(5));
    for (Variant& variant : variants) {
      variant.seed = 1 + random.below(3);
      for (uint32_t layer = 0; layer < kLayers; ++layer)
        if (random.below(2) == 0) variant.tuned_layers.insert(layer);
    }
    return variants;
  }
  std::vector<TestRequest> random_inputs(Random& random) const {
    static const std::vector<uint32_t> kIds[] = {{1, 5, 130}, {7}, {9, 8, 7, 6, 5, 4, 3, 2}};
    std::vector<TestRequest> inputs(2 + random.below(11));
    for (TestRequest& input : inputs)
      input = {.slot = static_cast<uint32_t>(random.below(variants_.size())),
               .ids = kIds[random.below(std::size(kIds))]};
    return inputs;
  }
  // The plan of the inputs, as ranges and as calls.
  void plan(const char* name, const std::vector<TestRequest>& inputs, Ranges& ranges,
            Calls& calls) const {
    std::vector<plan::Item> items;
    for (const TestRequest& input : inputs) items.push_back(item_of(input));
    plan::Plan plan;
    make_planner(name)->plan(items, plan);
    ASSERT_EQ(plan.passes.size(), 1u);
    ranges.clear();
    calls.clear();
    for (const plan::Call& call : plan.calls) {
      Ranges& of_call = calls.emplace_back();
      for (uint32_t m = 0; m < call.num_mini_batches; ++m) {
        const plan::MiniBatch& batch = plan.mini_batches[call.first_mini_batch + m];
        of_call.emplace_back(batch.num_rows, batch.slot);
        ranges.emplace_back(batch.num_rows, batch.slot);
      }
    }
    if (!plan.has_fixed_calls) calls.clear();
  }
};

// The base and three tenants that have fine-tuned the upper half of its layers. Eight GEMMs of the
// lower half run once for all, eight of the upper half four times.
TEST_F(JoinedGemms, HalfOfTheLayersTuned) {
  serve({{},
         {.tuned_layers = {2, 3}, .seed = 2},
         {.tuned_layers = {2, 3}, .seed = 3},
         {.tuned_layers = {2, 3}, .seed = 4}});
  run(one_each({2, 0, 3, 1}));
  ASSERT_EQ(gemms_.size(), 16u);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(gemms_[i].size(), i < 8 ? 1u : 4u) << i;
  EXPECT_EQ(num_ranges(), 8u * 1 + 8u * 4);
  EXPECT_EQ(gemms_[0], (Ranges{{12, 0}}));
  serve(variants_, false);
  run(one_each({2, 0, 3, 1}));
  EXPECT_EQ(num_ranges(), 16u * 4) << "without sharing";
}

// turbo plans one call for each of these tenants.
TEST_F(JoinedGemms, PlannedCallsOfHalfOfTheLayers) {
  serve({{},
         {.tuned_layers = {2, 3}, .seed = 2},
         {.tuned_layers = {2, 3}, .seed = 3},
         {.tuned_layers = {2, 3}, .seed = 4}});
  use("turbo");
  run(one_each({0, 1, 2, 3}));
  ASSERT_EQ(calls_.size(), 16u);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(calls_[i].size(), i < 8 ? 1u : 4u) << i;
}

// Two families of different lower layers, admitted in turn. Their requests come in any order.
TEST_F(JoinedGemms, TenantsOfAFamilyAreAdjacent) {
  serve({{.tuned_layers = {0, 1}, .seed = 1},
         {.tuned_layers = {0, 1}, .seed = 2},
         {.tuned_layers = {0, 1, 2}, .seed = 1},
         {.tuned_layers = {0, 1, 2}, .seed = 2}});
  for (const char* name : {"packed", "naive", "turbo"}) {
    use(name);
    run(one_each({3, 0, 1, 2}));
    // Layers 0 and 1: a family each. Layer 2: the base's in slots 0 and 1. Layer 3: the base's.
    constexpr size_t kRanges[] = {2, 2, 3, 1};
    for (size_t i = 0; i < gemms_.size(); ++i)
      EXPECT_EQ(gemms_[i].size(), kRanges[i / kGemmsOfLayer]) << name << ' ' << i;
    EXPECT_EQ(gemms_[8], (Ranges{{3, 2}, {6, 0}, {3, 3}})) << name;
  }
}

// Executed GEMMs are the planned ones, joined as the variants say; answers are those of each
// request alone. The same without joined GEMMs.
TEST_F(JoinedGemms, RandomTenantsRunThePlanJoinedLayerByLayer) {
  Random random(7);
  size_t saved = 0;
  for (int set = 0; set < 12; ++set) {
    const std::vector<Variant> variants = random_variants(random);
    for (const bool shares : {true, false}) {
      serve(variants, shares);
      for (const char* name : kPlanners) {
        use(name);
        for (int round = 0; round < 3; ++round) {
          const std::vector<TestRequest> inputs = random_inputs(random);
          run(inputs);
          Ranges ranges;
          Calls calls;
          plan(name, inputs, ranges, calls);
          ASSERT_EQ(gemms_.size(), kGemmsOfLayer * kLayers);
          for (size_t i = 0; i < gemms_.size(); ++i) {
            const auto layer = static_cast<uint32_t>(i / kGemmsOfLayer);
            if (!shares)
              ASSERT_EQ(gemms_[i], ranges) << name;
            else if (calls.empty())
              ASSERT_EQ(gemms_[i], joined(ranges, layer)) << name << ", GEMM " << i;
            else
              ASSERT_EQ(calls_[i], joined(calls, layer)) << name << ", GEMM " << i;
            saved += ranges.size() - gemms_[i].size();
          }
        }
      }
    }
  }
  EXPECT_GT(saved, 1000u);
}

// oneDNN: rows that run with others in one GEMM have the results of rows that run alone.
TEST_F(JoinedGemms, TheHostDeviceToo) {
  Random random(8);
  for (const char* kind : {"f32", "bf16"}) {
    const auto device = testing::make_device(kind);
    if (device == nullptr) continue;
    for (int set = 0; set < 3; ++set) {
      variants_ = random_variants(random);
      GroupOptions options = kOptions;
      const auto joining = make_encoder_group(*device, spec(), options).value();
      options.shares_weights = false;
      const auto apart = make_encoder_group(*device, spec(), options).value();
      for (const Variant& variant : variants_) {
        const std::string directory = make(variant);
        ASSERT_TRUE(joining->admit(directory, nullptr));
        ASSERT_TRUE(apart->admit(directory, nullptr));
      }
      const auto stream = device->make_stream(joining->stream_limits()).value();
      for (int round = 0; round < 3; ++round) {
        const std::vector<TestRequest> inputs = random_inputs(random);
        const auto a = testing::run_batch(*joining, *stream, inputs);
        const auto b = testing::run_batch(*apart, *stream, inputs);
        for (size_t i = 0; i < inputs.size(); ++i)
          ASSERT_LE(testing::max_difference(a[i].floats(), b[i].floats()),
                    std::string(kind) == "f32" ? 1e-4 : 0.05);
      }
    }
  }
}

}  // namespace
}  // namespace itif::runtime
