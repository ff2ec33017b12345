// Attention within segments.
#include <array>

#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

class AttentionTest : public DeviceTest {
 protected:
  struct Case {
    uint32_t num_heads = 0, head_size = 0;
    std::vector<uint32_t> lengths;
    double score_scale = 1.0;  // of q: larger ones sharpen the softmax
  };
  void run(const Case& c);
};
ITIF_SUITE_OF(AttentionTest, attention_cases());

void AttentionTest::run(const Case& c) {
  std::vector<uint32_t> offsets = {0};
  for (const uint32_t length : c.lengths) offsets.push_back(offsets.back() + length);
  const std::vector<SegmentRows> segments = segments_of(offsets);
  const size_t rows = offsets.back(), hidden = c.num_heads * c.head_size;
  auto qkv = random_activations(rows * 3 * hidden);
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < hidden; ++i) {
      float& q = qkv[r * 3 * hidden + i];
      q = rounded(static_cast<float>(q * c.score_scale));
    }
  const double scale = 1.0 / std::sqrt(c.head_size);
  std::byte* out = make_output(rows * hidden, activation());
  stream_->launch(kernels::Attention{.qkv = upload_activations(qkv),
                                     .out = out,
                                     .segments = segments,
                                     .num_heads = c.num_heads,
                                     .head_size = c.head_size,
                                     .scale = static_cast<float>(scale)});
  // The result is rounded to the activation type, and the probabilities may be. Results are
  // weighted means of values of size 1, the largest about 4.
  const double tolerance = 2.5 * unit() + 1e-5 * c.score_scale;
  expect_close(download_activations(out, rows * hidden),
               reference::attention(qkv, offsets, c.num_heads, c.head_size, scale), tolerance,
               std::to_string(c.num_heads) + " heads of " + std::to_string(c.head_size));
}

TEST_P(AttentionTest, HeadSizes) {
  for (const uint32_t head_size :
       {1u, 2u, 7u, 12u, 16u, 20u, 32u, 40u, 48u, 64u, 80u, 96u, 112u, 128u, 144u, 250u, 256u})
    run({.num_heads = 3, .head_size = head_size, .lengths = {5, 1, 37}});
}
// All head sizes of the tensor-core kernel: one step, several steps, the last one full or with a
// single key.
TEST_P(AttentionTest, HeadSizesOfLongSegments) {
  for (uint32_t head_size = 16; head_size <= 128; head_size += 16)
    run({.num_heads = 2, .head_size = head_size, .lengths = {64, 0, 65, 1, 129, 63, 192}});
}
TEST_P(AttentionTest, EveryShortLength) {
  for (uint32_t length = 1; length <= 70; ++length)
    run({.num_heads = 2, .head_size = 32, .lengths = {length}});
}
TEST_P(AttentionTest, ManySegmentsOfOneToken) {
  run({.num_heads = 12, .head_size = 64, .lengths = std::vector<uint32_t>(50, 1)});
}
TEST_P(AttentionTest, MixedLengthsAndEmptySegments) {
  run({.num_heads = 4, .head_size = 64, .lengths = {128, 3, 0, 77, 1, 0, 255, 16, 15, 17}});
  run({.num_heads = 4, .head_size = 64, .lengths = {0}});
  run({.num_heads = 4, .head_size = 64, .lengths = {}});
}
TEST_P(AttentionTest, LongSegmentsAreCutIntoBlocks) {
  run({.num_heads = 1, .head_size = 64, .lengths = {512}});
  run({.num_heads = 2, .head_size = 24, .lengths = {1, 700, 2}});
  run({.num_heads = 1, .head_size = 16, .lengths = {1500}});
}
// Softmax must subtract the maximum: e^300 exceeds f32.
TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  run({.num_heads = 2, .head_size = 64, .lengths = {40, 9}, .score_scale = 40.0});
}

// The segment data that a device keeps for a batch depends on the head size.
TEST_P(AttentionTest, HeadsOfTwoSizesInOneBatch) {
  const std::vector<SegmentRows> segments = segments_of(std::array{0u, 30u, 95u});
  const std::vector<std::pair<uint32_t, uint32_t>> kinds = {{2, 64}, {3, 24}, {4, 32}, {5, 12}};
  std::vector<std::vector<float>> qkv;
  std::vector<std::byte*> out;
  for (const auto& [heads, head_size] : kinds) {
    qkv.push_back(random_activations(95 * 3 * heads * head_size));
    out.push_back(make_output(95 * heads * head_size, activation()));
    stream_->launch(kernels::Attention{.qkv = upload_activations(qkv.back()),
                                       .out = out.back(),
                                       .segments = segments,
                                       .num_heads = heads,
                                       .head_size = head_size,
                                       .scale = 0.125f});
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto& [heads, head_size] = kinds[i];
    expect_close(download_activations(out[i], 95 * heads * head_size),
                 reference::attention(qkv[i], std::array{0u, 30u, 95u}, heads, head_size, 0.125),
                 2.5 * unit() + 1e-5,
                 std::to_string(heads) + " heads of " + std::to_string(head_size));
  }
}

// A segment's result must not depend on its neighbours' sizes or NaNs.
TEST_P(AttentionTest, SegmentsAreIndependent) {
  constexpr uint32_t kHeads = 2, kHeadSize = 32, kHidden = kHeads * kHeadSize;
  const std::vector<SegmentRows> segments = segments_of(std::array{0u, 3u, 40u, 45u});
  auto qkv = random_activations(45 * 3 * kHidden);
  const auto middle = std::span(qkv).subspan(3 * 3 * kHidden, 37 * 3 * kHidden);
  std::fill(qkv.begin(), qkv.begin() + 3 * 3 * kHidden, std::nanf(""));
  std::fill(qkv.begin() + 40 * 3 * kHidden, qkv.end(), std::nanf(""));
  std::byte* out = make_output(45 * kHidden, activation());
  stream_->launch(kernels::Attention{.qkv = upload_activations(qkv),
                                     .out = out,
                                     .segments = segments,
                                     .num_heads = kHeads,
                                     .head_size = kHeadSize,
                                     .scale = 0.125f});
  const auto got = download_activations(out, 45 * kHidden);
  const uint32_t alone[] = {0, 37};
  expect_close(std::span(got).subspan(3 * kHidden, 37 * kHidden),
               reference::attention(middle, alone, kHeads, kHeadSize, 0.125), 2.5 * unit() + 1e-5,
               "between NaNs");
}

// Rows between segments are neither read nor written, except that cuDNN does not specify whether it
// writes them.
TEST_P(AttentionTest, PaddingIsNeitherReadNorWritten) {
  constexpr uint32_t kHeads = 2, kHeadSize = 32, kHidden = kHeads * kHeadSize;
  const SegmentRows segments[] = {{0, 5}, {8, 37}};
  auto qkv = random_activations(50 * 3 * kHidden);
  for (const auto& [first, last] : {std::pair{5u, 8u}, {45u, 50u}})
    std::fill(qkv.begin() + first * 3 * kHidden, qkv.begin() + last * 3 * kHidden, std::nanf(""));
  std::byte* out = make_output(50 * kHidden, activation());
  const auto untouched = download_activations(out, kHidden)[0];
  stream_->launch(kernels::Attention{.qkv = upload_activations(qkv),
                                     .out = out,
                                     .segments = segments,
                                     .num_heads = kHeads,
                                     .head_size = kHeadSize,
                                     .scale = 0.125f});
  const auto got = download_activations(out, 50 * kHidden);
  for (const SegmentRows& segment : segments) {
    const auto part =
        std::span(qkv).subspan(segment.first_row * 3 * kHidden, segment.num_rows * 3 * kHidden);
    expect_close(
        std::span(got).subspan(segment.first_row * kHidden, segment.num_rows * kHidden),
        reference::attention(part, std::array{0u, segment.num_rows}, kHeads, kHeadSize, 0.125),
        2.5 * unit() + 1e-5, "beside padding");
  }
  if (GetParam().options.attention == "cudnn") return;
  for (const uint32_t row : {5u, 7u, 45u, 49u}) EXPECT_EQ(got[row * kHidden + 3], untouched) << row;
}

}  // namespace
}  // namespace itif::kernels
