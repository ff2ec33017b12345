// The GEMMs that a group's profile measures are those that its fusion mode runs.
#include <gtest/gtest.h>

#include <algorithm>

#include "backbone/family.h"
#include "backbone/fusion_mode.h"

namespace itif::backbone {
namespace {

struct Measured {
  uint32_t n, k, times;
  bool has_bias;
  bool operator==(const Measured&) const = default;
};

std::vector<Measured> measured(const char* preset, FusionMode fusion_mode) {
  const model::BackboneSpec& spec = find_preset(preset).value()->spec;
  std::vector<Measured> all;
  for (const GemmUse& use : gemms(*find_family(spec.family).value(), spec, fusion_mode))
    all.push_back({use.shape.n, use.shape.k, use.times, use.shape.has_bias});
  return all;
}

// ITIF, section 4.2.1: "three separate CUDA Streams to execute the corresponding GEMMs".
TEST(FusionModeGemms, QueryKeyAndValueAreThreeGemmsInThesisMode) {
  EXPECT_EQ(measured("bert-base", FusionMode::kThesis),
            (std::vector<Measured>{{768, 768, 36, false},
                                   {768, 768, 12, false},
                                   {3072, 768, 12, false},
                                   {768, 3072, 12, false}}));
  EXPECT_EQ(measured("bert-base", FusionMode::kFused),
            (std::vector<Measured>{{2304, 768, 12, true},
                                   {768, 768, 12, true},
                                   {3072, 768, 12, true},
                                   {768, 3072, 12, true}}));
}

TEST(FusionModeGemms, OneBlocksWeightsServeAllLayersOfAlbert) {
  const model::BackboneSpec& spec = find_preset("albert-large").value()->spec;
  for (const GemmUse& use : gemms(*find_family("albert").value(), spec, FusionMode::kThesis)) {
    EXPECT_FALSE(use.shape.has_bias);
    EXPECT_LE(use.num_weights, 3u);
  }
}

// Every family's GEMMs are found among its weights.
TEST(FusionModeGemms, ThesisModeComputesTheSameProducts) {
  for (const Family* family : families()) {
    if (family->make_decoder != nullptr) continue;
    for (const Preset& preset : family->presets) {
      uint64_t fused = 0, thesis = 0;
      for (const GemmUse& use : gemms(*family, preset.spec, FusionMode::kFused))
        fused += uint64_t{use.shape.n} * use.shape.k * use.times;
      for (const GemmUse& use : gemms(*family, preset.spec, FusionMode::kThesis))
        thesis += uint64_t{use.shape.n} * use.shape.k * use.times;
      EXPECT_EQ(fused, thesis) << preset.name;
    }
  }
}

}  // namespace
}  // namespace itif::backbone
