// Image tenants that share batches, and images that are malformed or unsupported.
#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "runtime/batch/make_encoder_group.h"
#include "runtime/cost/profiler.h"
#include "support/image_requests.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using testing::image_payload;
using testing::ImageRequests;
using testing::TempDirectory;
using wire::PayloadKind;
using wire::StatusCode;

model::BackboneSpec image_spec() {
  model::BackboneSpec spec;
  spec.family = "vit";
  spec.layers = 2;
  spec.hidden = 36;
  spec.heads = 3;
  spec.intermediate = 52;
  spec.image = {.height = 28, .width = 28, .channels = 3, .patch = 7};
  spec.max_positions = 17;
  spec.own = {{"qkv_bias", uint64_t{1}}};
  return spec;
}

std::vector<std::byte> random_pixels(Random& random, size_t bytes) {
  std::vector<std::byte> pixels(bytes);
  for (std::byte& pixel : pixels) pixel = static_cast<std::byte>(random.below(256));
  return pixels;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

// Tenant i's images are normalised with its own mean; the last tenant has no
// preprocessor_config.json.
class Images : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr uint32_t kTenants = 4, kNoResize = 2, kF32Only = 3;

  void SetUp() override {
    device_ = testing::make_device(GetParam());
    if (!device_) GTEST_SKIP() << "this machine has no " << GetParam();
    group_ =
        make_encoder_group(*device_, image_spec(), {.max_tokens = 120, .max_tenants = kTenants})
            .value();
    for (uint32_t i = 0; i < kTenants; ++i) {
      const std::string directory = files_.file("tenant" + std::to_string(i));
      auto options = testing::loud_model(image_spec(), mkmodel::HeadChoice::kClassification, i + 1);
      options.labels = {"cat", "dog", "heron"};
      ASSERT_TRUE(mkmodel::make_model(options, directory));
      const std::string preprocessor = directory + "/preprocessor_config.json";
      if (i == kF32Only) {
        std::filesystem::remove(preprocessor);
      } else {
        write(preprocessor, i == kNoResize
                                ? R"({"do_resize": false})"
                                : R"({"size": 28, "image_mean": 0.)" + std::to_string(i + 2) + "}");
      }
      const auto slot = group_->admit(directory, nullptr);
      ASSERT_TRUE(slot) << slot.error().message;
      ASSERT_EQ(*slot, i);
    }
    requests_ = std::make_unique<ImageRequests>(*device_, *group_);
  }

  StatusCode status(uint32_t slot, PayloadKind kind, const std::vector<std::byte>& payload,
                    std::string* detail = nullptr) {
    const request::Request& r = requests_->submit(slot, kind, payload);
    requests_->run();
    if (detail) *detail = r.detail;
    return r.status;
  }

  TempDirectory files_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<EncoderGroup> group_;
  std::unique_ptr<ImageRequests> requests_;
  Random random_{9};
};

TEST_P(Images, ProfilesMeasureWholePassesOfImages) {
  ProfileOptions options = profile_options(*group_);
  options.samples = 1;
  const SystemClock clock;
  const auto stream = device_->make_stream(group_->stream_limits()).value();
  stream->attach_thread();
  Profiler profiler(*device_, clock, group_->gemms(), "tiny", options);
  while (profiler.step(*stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->other_row_ns.size(), tables->lengths.size());
}

TEST_P(Images, BatchedResultsEqualSingleResults) {
  struct Sent {
    uint32_t slot;
    std::vector<std::byte> payload;
    const request::Request* batched = nullptr;
  };
  std::vector<Sent> sent;
  for (int i = 0; i < 12; ++i) {
    const auto side = static_cast<uint16_t>(i % 4 == 3 && i % 3 != kNoResize ? 20 + i : 28);
    sent.push_back(
        {static_cast<uint32_t>(i % 3),
         image_payload({side, side, 3}, random_pixels(random_, size_t{3} * side * side))});
  }
  const auto hidden = wire::ResultKind::kHidden;
  for (Sent& one : sent)
    one.batched = &requests_->submit(one.slot, PayloadKind::kImageU8, one.payload, hidden, 100);
  requests_->run();
  EXPECT_GE(requests_->largest_batch, 7u);  // 120 rows hold 7 images of 17 rows
  std::vector<std::vector<float>> results;
  for (const Sent& one : sent) {
    const request::Request& alone =
        requests_->submit(one.slot, PayloadKind::kImageU8, one.payload, hidden);
    requests_->run();
    ASSERT_EQ(one.batched->status, StatusCode::kOk) << one.batched->detail;
    ASSERT_EQ(alone.status, StatusCode::kOk) << alone.detail;
    EXPECT_EQ(alone.result_rows, 17u);
    results.push_back(ImageRequests::floats(alone));
    if (GetParam() == "bf16")
      EXPECT_GE(testing::cosine(ImageRequests::floats(*one.batched), results.back()), 0.9999);
    else
      EXPECT_LE(testing::max_difference(ImageRequests::floats(*one.batched), results.back()), 1e-4);
  }
  EXPECT_GT(testing::max_difference(results[0], results[1]), 0.1);  // tenants differ
}

TEST_P(Images, EachWrongImageGetsItsStatus) {
  const auto u8 = [&](uint16_t h, uint16_t w, uint16_t c, int more = 0, uint16_t reserved = 0) {
    return image_payload({h, w, c, reserved},
                         random_pixels(random_, static_cast<size_t>(h * w * c + more)));
  };
  const auto f32 = [&](uint16_t h, uint16_t w) {
    return image_payload({h, w, 3}, std::vector<std::byte>(size_t{h} * w * 3 * 4));
  };
  const struct {
    uint32_t slot;
    PayloadKind kind;
    std::vector<std::byte> payload;
    StatusCode status;
    const char* detail;
  } rows[] = {
      {0, PayloadKind::kImageU8, u8(28, 28, 3), StatusCode::kOk, ""},
      {0, PayloadKind::kImageF32, f32(28, 28), StatusCode::kOk, ""},
      {kF32Only, PayloadKind::kImageF32, f32(28, 28), StatusCode::kOk, ""},
      {0, PayloadKind::kTokensU16, u8(28, 28, 3), StatusCode::kUnsupportedKind, "takes images"},
      {0, PayloadKind::kText, u8(28, 28, 3), StatusCode::kUnsupportedKind, "takes images"},
      {0, PayloadKind::kRaw, u8(28, 28, 3), StatusCode::kUnsupportedKind, "takes images"},
      {kF32Only, PayloadKind::kImageU8, u8(28, 28, 3), StatusCode::kUnsupportedKind, "image_f32"},
      {0, PayloadKind::kImageU8, {}, StatusCode::kMalformed, "too short"},
      {0, PayloadKind::kImageU8, std::vector<std::byte>(7), StatusCode::kMalformed, "too short"},
      {0, PayloadKind::kImageU8, u8(0, 28, 3, 9), StatusCode::kMalformed, "none of them 0"},
      {0, PayloadKind::kImageU8, u8(28, 28, 3, 0, 1), StatusCode::kMalformed, "none of them 0"},
      {0, PayloadKind::kImageU8, u8(28, 28, 3, -1), StatusCode::kMalformed, "not as long"},
      {0, PayloadKind::kImageU8, u8(28, 28, 3, 1), StatusCode::kMalformed, "not as long"},
      {0, PayloadKind::kImageF32, u8(28, 28, 3), StatusCode::kMalformed, "not as long"},
      {0, PayloadKind::kImageU8, u8(28, 28, 1), StatusCode::kUnsupportedKind, "channels"},
      {0, PayloadKind::kImageU8, u8(28, 28, 4), StatusCode::kUnsupportedKind, "channels"},
      {0, PayloadKind::kImageF32, f32(28, 27), StatusCode::kUnsupportedKind, "not resized"},
      {kNoResize, PayloadKind::kImageU8, u8(28, 27, 3), StatusCode::kUnsupportedKind,
       "does not resize"},
      {0, PayloadKind::kImageU8, u8(28, 27, 3), StatusCode::kOk, ""},
      {0, PayloadKind::kImageU8, u8(1, 8192, 3), StatusCode::kOk, ""},
      {0, PayloadKind::kImageU8, u8(8193, 1, 3), StatusCode::kTooLong, "8192"},
  };
  for (size_t i = 0; i < std::size(rows); ++i) {
    SCOPED_TRACE(i);
    std::string detail;
    EXPECT_EQ(status(rows[i].slot, rows[i].kind, rows[i].payload, &detail), rows[i].status)
        << detail;
    EXPECT_NE(detail.find(rows[i].detail), std::string::npos) << detail;
  }
}

// Resizing on arrival would let a flood of large pictures delay other tenants' batches, and would
// take memory for every queued picture.
TEST_P(Images, AreResizedWhenTheirBatchIsChosen) {
  std::vector<const request::Request*> sent;
  for (int i = 0; i < 10; ++i)
    sent.push_back(&requests_->submit(
        0, PayloadKind::kImageU8, image_payload({40, 30, 3}, random_pixels(random_, 40 * 30 * 3))));
  for (const request::Request* r : sent) EXPECT_EQ(r->prepared, 0u);
  requests_->run();
  for (const request::Request* r : sent) {
    EXPECT_EQ(r->status, StatusCode::kOk) << r->detail;
    EXPECT_EQ(r->prepared, 0u);
  }
}

TEST_P(Images, AreRefusedByTextModels) {
  const auto text = testing::SmallGroup(*device_);
  ImageRequests requests(*device_, *text.group);
  const auto payload = image_payload({4, 4, 3}, random_pixels(random_, 48));
  const request::Request& r = requests.submit(0, PayloadKind::kImageU8, payload);
  requests.run();
  EXPECT_EQ(r.status, StatusCode::kUnsupportedKind);
  EXPECT_STREQ(r.detail, "the tenant's model takes token ids or text");
}

// forward() checks requests itself: a caller's mistake must not read out of bounds.
TEST_P(Images, InconsistentRequestsAreExcludedFromTheBatch) {
  const std::vector<std::byte> payload =
      image_payload({28, 28, 3}, random_pixels(random_, 28 * 28 * 3));
  const auto bytes = static_cast<uint32_t>(payload.size());
  const request::Piece whole{payload.data(), bytes}, cut{payload.data(), bytes - 1};
  PreparedInput resized;
  resized.pixels_piece = {payload.data(), 28 * 28 * 3 - 1};
  std::array<request::Request, 7> requests;
  std::array<BatchRequest, 7> segments;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].slot = 1;
    requests[i].num_tokens = 17;
    requests[i].payload_kind = PayloadKind::kImageU8;
    requests[i].pieces = {&whole, 1};
    segments[i].request = &requests[i];
  }
  requests[0].slot = requests[1].slot = 0;
  requests[0].pieces = {&cut, 1};
  requests[2].num_tokens = 16;
  requests[3].payload_kind = PayloadKind::kTokensU32;
  requests[4].slot = kF32Only;
  requests[5].pieces = {};
  segments[6].prepared = &resized;
  Batch batch{segments};
  const auto stream = device_->make_stream(group_->stream_limits()).value();
  ASSERT_TRUE(group_->forward(*stream, batch));
  EXPECT_EQ(requests[0].status, StatusCode::kMalformed);
  EXPECT_EQ(requests[1].status, StatusCode::kOk) << requests[1].detail;
  EXPECT_EQ(requests[2].status, StatusCode::kMalformed);
  EXPECT_EQ(requests[3].status, StatusCode::kUnsupportedKind);
  EXPECT_EQ(requests[4].status, StatusCode::kUnsupportedKind);
  EXPECT_EQ(requests[5].status, StatusCode::kMalformed);
  EXPECT_EQ(requests[6].status, StatusCode::kMalformed);
  for (const request::Request& request : requests) std::free(request.result.data);
}

INSTANTIATE_TEST_SUITE_P(Devices, Images, ::testing::Values("plain", "f32", "bf16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace itif::runtime
