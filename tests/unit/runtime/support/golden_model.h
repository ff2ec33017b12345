// Fixture: a directory of tests/data/goldens as a tenant on the tested device, in a given type and
// fusion mode. Compares results with those of Hugging Face transformers, within a tolerance.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "backbone/open_model.h"
#include "runtime/batch/make_encoder_group.h"
#include "support/test_batch.h"
#include "support/test_data.h"
#include "support/tested_device.h"

namespace itif::testing {

// Returns the directories that hold `file`.
inline std::vector<std::string> golden_names(const std::string& file) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("goldens")))
    if (std::filesystem::exists(entry.path() / file))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

inline wire::ResultKind kind_of(const std::string& name) {
  for (int kind = 0; kind <= 6; ++kind)
    if (wire::result_kind_name(static_cast<wire::ResultKind>(kind)) == name)
      return static_cast<wire::ResultKind>(kind);
  ADD_FAILURE() << "unknown kind " << name;
  return wire::ResultKind::kDefault;
}

// Directory, type, fusion mode.
using GoldenParam = std::tuple<std::string, std::string, std::string>;

inline auto golden_params(const std::string& file) {
  return ::testing::Combine(::testing::ValuesIn(golden_names(file)),
                            ::testing::Values("f32", "bf16"), ::testing::Values("fused", "thesis"));
}
inline std::string golden_test_name(const ::testing::TestParamInfo<GoldenParam>& info) {
  const auto& [name, dtype, fusion] = info.param;
  std::string test = name + "_on_" + dtype + "_" + fusion;
  std::ranges::replace(test, '-', '_');
  return test;
}

class GoldenModel : public ::testing::TestWithParam<GoldenParam> {
 protected:
  const std::string& dtype() const { return std::get<1>(GetParam()); }

  // Reads `file` into golden_. Skips the test if the tested device lacks the type.
  void open(const std::string& file, uint32_t max_tokens) {
    auto opened = open_tested_device(dtype());
    if (!opened && opened.error().code == Code::kUnsupported)
      GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);
    const std::string directory = test_data("goldens/" + std::get<0>(GetParam()));
    const auto spec = backbone::read_backbone_spec(directory);
    ASSERT_TRUE(spec) << spec.error().message;
    const auto fusion_mode = backbone::parse_fusion_mode(std::get<2>(GetParam())).value();
    auto group = runtime::make_encoder_group(
        *device_, *spec, {.max_tokens = max_tokens, .max_requests = 64, .max_tenants = 1},
        {.fusion_mode = fusion_mode});
    ASSERT_TRUE(group) << group.error().message;
    group_ = std::move(*group);
    const auto slot = group_->admit(directory, nullptr);
    ASSERT_TRUE(slot) << slot.error().message;
    slot_ = *slot;
    std::ifstream stream(directory + "/" + file);
    golden_ = nlohmann::json::parse(stream);
    ASSERT_GT(golden_["cases"].size(), 3u);
    keep_few(golden_["cases"]);
  }

  void expect_close(const std::vector<float>& got, const std::vector<float>& expected) const {
    ASSERT_EQ(got.size(), expected.size());
    if (dtype() == "f32")
      EXPECT_LE(max_difference(got, expected), 1e-4);
    else if (got.size() > 8)
      EXPECT_GE(cosine(got, expected), 0.999);
    else  // the cosine of a few numbers says little
      EXPECT_LE(max_difference(got, expected), 0.02);
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<runtime::EncoderGroup> group_;
  uint32_t slot_ = 0;
  nlohmann::json golden_;
};

}  // namespace itif::testing
