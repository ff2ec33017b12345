// LoRA adapters as PEFT saves them, compared with PEFT's results
// (tests/reference/make_adapter_goldens.py), on the tested device in every type it offers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backbone/open_model.h"
#include "runtime/batch/make_encoder_group.h"
#include "support/image_requests.h"
#include "support/test_batch.h"
#include "support/test_data.h"
#include "support/tested_device.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::ImageRequests;
using testing::TestRequest;

std::vector<std::string> adapter_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testing::test_data("adapters")))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// Adapter, type, fusion mode.
class AdapterGolden
    : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {
 protected:
  void SetUp() override {
    const auto& [name, dtype, fusion] = GetParam();
    auto opened = testing::open_tested_device(dtype);
    if (!opened && opened.error().code == Code::kUnsupported)
      GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);
    const std::string directory = testing::test_data("adapters/" + name);
    std::ifstream file(directory + "/golden.json");
    golden_ = nlohmann::json::parse(file);
    base_ = testing::test_data(golden_["base"].get<std::string>());
    const auto spec = backbone::read_backbone_spec(base_);
    ASSERT_TRUE(spec) << spec.error().message;
    auto group = make_encoder_group(*device_, *spec,
                                    {.max_tokens = 512, .max_requests = 64, .max_tenants = 3},
                                    {.fusion_mode = backbone::parse_fusion_mode(fusion).value()});
    ASSERT_TRUE(group) << group.error().message;
    group_ = std::move(*group);
    const auto base = group_->admit(base_, nullptr);
    ASSERT_TRUE(base) << base.error().message;
    base_slot_ = *base;
    const auto slot = group_->admit({directory, base_}, nullptr);
    ASSERT_TRUE(slot) << slot.error().message;
    slot_ = *slot;
  }
  void expect_close(const std::vector<float>& got, const nlohmann::json& one) const {
    const auto expected = one["values"].get<std::vector<float>>();
    ASSERT_EQ(got.size(), expected.size());
    if (std::get<1>(GetParam()) == "f32")
      EXPECT_LE(testing::max_difference(got, expected), 2e-4);
    else if (got.size() > 8)
      EXPECT_GE(testing::cosine(got, expected), 0.998);
    else
      EXPECT_LE(testing::max_difference(got, expected), 0.06);
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<EncoderGroup> group_;
  std::string base_;
  uint32_t base_slot_ = 0, slot_ = 0;
  nlohmann::json golden_;
};

// All cases in one batch, with requests of the base between them.
TEST_P(AdapterGolden, AnswersAsPeft) {
  if (group_->spec().takes_images()) {
    ImageRequests requests(*device_, *group_);
    std::vector<const request::Request*> sent;
    const model::ImageInput& image = group_->spec().image;
    for (const auto& one : golden_["cases"]) {
      const auto pixels = one["pixels"].get<std::vector<float>>();  // channels first
      std::vector<float> by_pixel(pixels.size());
      const size_t area = size_t{image.height} * image.width;
      for (size_t c = 0; c < image.channels; ++c)
        for (size_t i = 0; i < area; ++i) by_pixel[i * image.channels + c] = pixels[c * area + i];
      std::vector<std::byte> bytes(by_pixel.size() * sizeof(float));
      std::memcpy(bytes.data(), by_pixel.data(), bytes.size());
      wire::ImagePrefix prefix{};
      prefix.height = static_cast<uint16_t>(image.height);
      prefix.width = static_cast<uint16_t>(image.width);
      prefix.channels = static_cast<uint16_t>(image.channels);
      const auto payload = testing::image_payload(prefix, bytes);
      for (const uint32_t slot : {base_slot_, slot_}) {
        const request::Request& request =
            requests.submit(slot, wire::PayloadKind::kImageF32, payload, wire::ResultKind::kLogits);
        if (slot == slot_) sent.push_back(&request);
      }
    }
    requests.run();
    for (size_t i = 0; i < sent.size(); ++i) {
      ASSERT_EQ(sent[i]->status, wire::StatusCode::kOk) << sent[i]->detail;
      std::vector<float> got(sent[i]->result.bytes / sizeof(float));
      std::memcpy(got.data(), sent[i]->result.data, sent[i]->result.bytes);
      expect_close(got, golden_["cases"][i]);
    }
    return;
  }
  std::vector<TestRequest> inputs;
  for (const auto& one : golden_["cases"])
    for (const uint32_t slot : {slot_, base_slot_}) {
      TestRequest& input = inputs.emplace_back();
      input.slot = slot;
      input.ids = one["ids"].get<std::vector<uint32_t>>();
      input.token_types = one["token_types"].get<std::vector<uint8_t>>();
      const std::string kind = one["kind"];
      input.kind = slot == base_slot_ ? wire::ResultKind::kHidden
                   : kind == "hidden" ? wire::ResultKind::kHidden
                   : kind == "logits" ? wire::ResultKind::kLogits
                                      : wire::ResultKind::kTokenLogits;
    }
  const auto stream = device_->make_stream(group_->stream_limits()).value();
  const std::vector<Answer> answers = testing::run_batch(*group_, *stream, inputs);
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i / 2);
    ASSERT_TRUE(answers[i].ok()) << answers[i].detail;
    if (i % 2 == 0) expect_close(answers[i].floats(), golden_["cases"][i / 2]);
  }
}

std::string adapter_test_name(const ::testing::TestParamInfo<AdapterGolden::ParamType>& info) {
  const auto& [name, dtype, fusion] = info.param;
  std::string test = name + "_on_" + dtype + "_" + fusion;
  std::ranges::replace(test, '-', '_');
  return test;
}

INSTANTIATE_TEST_SUITE_P(Peft, AdapterGolden,
                         ::testing::Combine(::testing::ValuesIn(adapter_names()),
                                            ::testing::Values("f32", "bf16"),
                                            ::testing::Values("fused", "thesis")),
                         adapter_test_name);

}  // namespace
}  // namespace itif::runtime
