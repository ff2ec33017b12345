// Small image models of Hugging Face transformers against what the library computed with them, picture to
// result (tests/reference/make_image_goldens.py): resize, rescale, normalise, patches, blocks, heads.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backbone/open_model.h"
#include "support/ask.h"
#include "support/image_requests.h"

namespace itif::runtime {
namespace {

using testing::ImageRequests;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ITIF_GOLDENS_DIR))
    if (std::filesystem::exists(entry.path() / "image_golden.json"))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::vector<std::byte> from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> count));
  }
  return bytes;
}

struct Image {
  wire::PayloadKind kind;
  std::vector<std::byte> payload;
};

class ImageGolden
    : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {
 protected:
  const std::string& dtype() const { return std::get<1>(GetParam()); }

  void SetUp() override {
    auto opened = device::open_device({.kind = "host", .dtype = dtype(), .num_threads = 1});
    if (!opened && opened.error().code == Code::kUnsupported)
      GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);
    const std::string directory = std::string(ITIF_GOLDENS_DIR) + "/" + std::get<0>(GetParam());
    const auto spec = backbone::read_backbone_spec(directory);
    ASSERT_TRUE(spec) << spec.error().message;
    const auto fidelity = backbone::parse_fidelity(std::get<2>(GetParam())).value();
    auto group = Group::create(
        *device_, *spec,
        {.max_tokens = 400, .max_requests = 64, .max_tenants = 1, .fidelity = fidelity});
    ASSERT_TRUE(group) << group.error().message;
    group_ = std::move(*group);
    const auto slot = group_->admit(directory, nullptr);
    ASSERT_TRUE(slot) << slot.error().message;

    std::ifstream file(directory + "/image_golden.json");
    golden_ = nlohmann::json::parse(file);
    for (const auto& image : golden_["images"]) {
      const wire::ImagePrefix prefix{
          .height = image["height"], .width = image["width"], .channels = image["channels"]};
      images_.push_back(
          {image["payload"] == "f32" ? wire::PayloadKind::kImageF32 : wire::PayloadKind::kImageU8,
           testing::image_payload(prefix, from_base64(image["base64"]))});
    }
    ASSERT_GT(golden_["cases"].size(), 3u);
  }

  static wire::ResultKind kind_of(const std::string& name) {
    for (int kind = 1; kind <= 6; ++kind)
      if (wire::result_kind_name(static_cast<wire::ResultKind>(kind)) == name)
        return static_cast<wire::ResultKind>(kind);
    ADD_FAILURE() << "unknown kind " << name;
    return wire::ResultKind::kDefault;
  }

  request::Request& submit(ImageRequests& requests, const nlohmann::json& one,
                           uint32_t fragment_bytes) {
    const Image& image = images_[one["image"]];
    return requests.submit(0, image.kind, image.payload, kind_of(one["kind"]), fragment_bytes);
  }

  void expect_close(const nlohmann::json& one, const request::Request& request) const {
    SCOPED_TRACE(one["kind"].get<std::string>() + " of image " + one["image"].dump());
    ASSERT_EQ(request.status, wire::StatusCode::kOk) << request.detail;
    const auto expected = one["values"].get<std::vector<float>>();
    const std::vector<float> got = ImageRequests::floats(request);
    ASSERT_EQ(got.size(), expected.size());
    if (dtype() == "f32")
      EXPECT_LE(testing::max_difference(got, expected), 1e-4);
    else if (got.size() > 8)
      EXPECT_GE(testing::cosine(got, expected), 0.999);
    else  // a few numbers have hardly a direction
      EXPECT_LE(testing::max_difference(got, expected), 0.02);
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<Group> group_;
  nlohmann::json golden_;
  std::vector<Image> images_;
};

TEST_P(ImageGolden, OneByOne) {
  ImageRequests requests(*device_, *group_);
  for (const auto& one : golden_["cases"]) {
    const request::Request& request = submit(requests, one, 1384);
    requests.run();
    expect_close(one, request);
  }
  EXPECT_EQ(requests.largest_batch, 1u);
}

TEST_P(ImageGolden, InBatchesOfSmallPieces) {
  ImageRequests requests(*device_, *group_);
  std::vector<const request::Request*> sent;
  for (const auto& one : golden_["cases"])
    sent.push_back(&submit(requests, one, 64 + 4 * static_cast<uint32_t>(sent.size() % 9)));
  requests.run();
  for (size_t i = 0; i < sent.size(); ++i) expect_close(golden_["cases"][i], *sent[i]);
  EXPECT_GT(requests.largest_batch, 3u);
}

INSTANTIATE_TEST_SUITE_P(Models, ImageGolden,
                         ::testing::Combine(::testing::ValuesIn(golden_names()),
                                            ::testing::Values("f32", "bf16"),
                                            ::testing::Values("fused", "thesis")),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_on_" +
                                              std::get<1>(info.param) + "_" +
                                              std::get<2>(info.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace itif::runtime
