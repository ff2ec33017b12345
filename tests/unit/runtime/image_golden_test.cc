// Results of small Hugging Face image models compared with those of transformers, from picture to
// result (tests/reference/make_image_goldens.py): resize, rescale, normalise, patches, blocks,
// heads.
#include "support/golden_model.h"
#include "support/image_requests.h"

namespace itif::runtime {
namespace {

using testing::ImageRequests;

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

class ImageGolden : public testing::GoldenModel {
 protected:
  void SetUp() override {
    open("image_golden.json", 400);
    if (IsSkipped() || HasFatalFailure()) return;
    for (const auto& image : golden_["images"]) {
      const wire::ImagePrefix prefix{
          .height = image["height"], .width = image["width"], .channels = image["channels"]};
      images_.push_back(
          {image["payload"] == "f32" ? wire::PayloadKind::kImageF32 : wire::PayloadKind::kImageU8,
           testing::image_payload(prefix, from_base64(image["base64"]))});
    }
  }

  request::Request& submit(ImageRequests& requests, const nlohmann::json& one,
                           uint32_t fragment_bytes) {
    const Image& image = images_[one["image"]];
    return requests.submit(slot_, image.kind, image.payload, testing::kind_of(one["kind"]),
                           fragment_bytes);
  }

  void expect_answer(const nlohmann::json& one, const request::Request& request) const {
    SCOPED_TRACE(one["kind"].get<std::string>() + " of image " + one["image"].dump());
    ASSERT_EQ(request.status, wire::StatusCode::kOk) << request.detail;
    expect_close(ImageRequests::floats(request), one["values"].get<std::vector<float>>());
  }

  std::vector<Image> images_;
};

TEST_P(ImageGolden, OneByOne) {
  ImageRequests requests(*device_, *group_);
  for (const auto& one : golden_["cases"]) {
    const request::Request& request = submit(requests, one, 1384);
    requests.run();
    expect_answer(one, request);
  }
  EXPECT_EQ(requests.largest_batch, 1u);
}

TEST_P(ImageGolden, InBatchesOfSmallPieces) {
  ImageRequests requests(*device_, *group_);
  std::vector<const request::Request*> sent;
  for (const auto& one : golden_["cases"])
    sent.push_back(&submit(requests, one, 64 + 4 * static_cast<uint32_t>(sent.size() % 9)));
  requests.run();
  for (size_t i = 0; i < sent.size(); ++i) expect_answer(golden_["cases"][i], *sent[i]);
  EXPECT_GE(requests.largest_batch, std::min<size_t>(4, sent.size()));
}

INSTANTIATE_TEST_SUITE_P(Models, ImageGolden, testing::golden_params("image_golden.json"),
                         testing::golden_test_name);

}  // namespace
}  // namespace itif::runtime
