// Biases of GEMMs whose result the next launch reads. A device may fuse the bias into that launch,
// and must add it itself if another launch comes between. The GEMMs multiply by the identity, so
// that only the biased sums are rounded.
#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

class BiasTest : public DeviceTest {
 protected:
  static constexpr uint32_t kSlots[] = {2, 0, 1};
  // The operation between the GEMM and its reader.
  enum class Between { kNothing, kAnotherLaunch, kACopy, kAnotherGemm };

  // x + bias of each row's tenant, in a buffer that a GEMM writes.
  struct Sums {
    std::vector<float> x;
    std::vector<std::vector<float>> bias;
    GroupedGemm gemm;
    std::vector<float> expected;
  };
  Sums sums(uint32_t width, std::span<const RowRange> ranges, GemmMode mode);
  void launch(const Sums& sums, Between between);

  struct Case {
    uint32_t head_size = 64, num_heads = 2;
    std::vector<uint32_t> rows_of = {67, 9, 40};
    GemmMode mode = GemmMode::kConcurrent;
    Between between = Between::kNothing;
    bool shares_scores = false;  // one score matrix of all tenants' segments
  };
  void attend(const Case& c);

  std::vector<device::GemmHandle> prepared_;
  std::vector<float> copied_;  // by kACopy
};
ITIF_SUITE_OF(BiasTest, attention_cases());

BiasTest::Sums BiasTest::sums(uint32_t width, std::span<const RowRange> ranges, GemmMode mode) {
  Sums made;
  const uint32_t rows = total_rows(ranges), slack = device_->row_slack();
  const device::GemmShape shape{.n = width, .k = width};
  prepared_.push_back(device_->prepare(shape, std::max(1u, rows)).value());
  std::vector<float> identity(width * width);
  for (uint32_t i = 0; i < width; ++i) identity[i * width + i] = 1;
  const size_t stride = (device_->packed_bytes(shape).value() + 255) / 256 * 256;
  auto weights = device_->allocate(3 * stride).value();
  made.x = random_activations(rows * width);
  for (int s = 0; s < 3; ++s) {
    made.bias.push_back(random_values(width));
    const auto view_of = [](const std::vector<float>& values, const Shape& of) {
      return TensorView{reinterpret_cast<const std::byte*>(values.data()), DType::kF32, of};
    };
    const TensorView weight = view_of(identity, {width, width}),
                     bias = view_of(made.bias.back(), {width});
    EXPECT_TRUE(device_->pack(shape, {&weight, 1}, weights->data() + s * stride));
    EXPECT_TRUE(device_->pack_bias(shape, {&bias, 1}, weights->data() + s * stride));
  }
  const auto slots = slot_of_rows(ranges);
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t i = 0; i < width; ++i)
      made.expected.push_back(made.x[r * width + i] + made.bias[slots[r]][i]);
  made.gemm = {.a = upload_activations(made.x, slack * width),
               .weights = {.base = weights->data(), .stride_bytes = stride},
               .bias = upload_slab(made.bias, DType::kF32),
               .out = make_output((rows + slack) * width, activation()),
               .n = width,
               .k = width,
               .ranges = ranges,
               .schedule = mode,
               .prepared = prepared_.back().get()};
  buffers_.push_back(std::move(weights));
  return made;
}

void BiasTest::launch(const Sums& sums, Between between) {
  stream_->launch(sums.gemm);
  switch (between) {
    case Between::kNothing: break;
    case Between::kAnotherLaunch: {
      std::byte* values = make_output(4, activation());
      stream_->launch(kernels::ToF32{
          .x = values, .out = reinterpret_cast<float*>(make_output(4, DType::kF32)), .count = 4});
      break;
    }
    case Between::kACopy:
      copied_ = download_activations(sums.gemm.out, sums.expected.size());
      break;
    case Between::kAnotherGemm: {
      const RowRange one{.first_row = 0, .num_rows = 3, .slot = 0};
      GroupedGemm other = sums.gemm;
      other.ranges = {&one, 1};
      other.out = make_output((3 + device_->row_slack()) * other.n, activation());
      stream_->launch(other);
    }
  }
}

// Attention over queries, keys and values with biases; segments of several tenants, padding between
// them.
void BiasTest::attend(const Case& c) {
  const auto ranges = make_ranges(c.rows_of, kSlots);
  const uint32_t rows = total_rows(ranges), hidden = c.num_heads * c.head_size;
  std::vector<SegmentRows> segments;
  for (const RowRange& range : ranges) {
    const uint32_t first = range.num_rows / 3;
    segments.push_back({range.first_row, first});
    segments.push_back({range.first_row + first + 1, range.num_rows - first - 1});
  }
  const Sums qkv = sums(3 * hidden, ranges, c.mode);
  launch(qkv, c.between);
  std::byte* out = make_output(rows * hidden, activation());
  const double scale = 1.0 / std::sqrt(c.head_size);
  std::vector<SegmentRows> matrices;
  if (c.shares_scores) matrices.push_back({0, rows});
  stream_->launch(kernels::Attention{.qkv = qkv.gemm.out,
                                     .out = out,
                                     .segments = segments,
                                     .score_matrices = matrices,
                                     .num_heads = c.num_heads,
                                     .head_size = c.head_size,
                                     .scale = static_cast<float>(scale)});
  const auto got = download_activations(out, rows * hidden);
  for (const SegmentRows& segment : segments) {
    const auto part = std::span(qkv.expected)
                          .subspan(segment.first_row * 3 * hidden, segment.num_rows * 3 * hidden);
    const uint32_t alone[] = {0, segment.num_rows};
    // Queries, keys, values, weights and the result are rounded; scores are at most about 20.
    expect_close(
        std::span(got).subspan(segment.first_row * hidden, segment.num_rows * hidden),
        reference::attention(part, alone, c.num_heads, c.head_size, scale), 6 * unit() + 1e-5,
        std::to_string(c.head_size) + " a head, rows from " + std::to_string(segment.first_row));
  }
}
TEST_P(BiasTest, AttentionAddsQkvBias) {
  for (const uint32_t head_size : {12u, 16u, 32u, 48u, 64u, 80u, 96u, 128u, 144u})
    for (const GemmMode mode : {GemmMode::kSequential, GemmMode::kConcurrent})
      attend({.head_size = head_size, .mode = mode});
}
// A tile of queries then has rows of several tenants.
TEST_P(BiasTest, AttentionOverSharedScoresHasEachTenantsBias) {
  for (const uint32_t head_size : {12u, 64u})
    attend({.head_size = head_size, .shares_scores = true});
  attend({.rows_of = {150}});
  attend({.head_size = 32, .num_heads = 12, .rows_of = {5, 3, 4, 7, 300}});
}
TEST_P(BiasTest, AttentionAfterAnotherLaunch) {
  for (const Between between : {Between::kAnotherLaunch, Between::kAnotherGemm})
    attend({.between = between});
}
TEST_P(BiasTest, CopyIncludesBias) {
  attend({.between = Between::kACopy});
  const auto ranges = make_ranges(std::vector<uint32_t>{7, 3}, kSlots);
  // With 16 bits, cuBLAS groups only if 8 divides the width.
  const Sums alone = sums(40, ranges, GemmMode::kConcurrent);
  launch(alone, Between::kACopy);
  ASSERT_EQ(copied_.size(), alone.expected.size());
  for (size_t i = 0; i < copied_.size(); ++i) EXPECT_EQ(copied_[i], rounded(alone.expected[i]));
}
// The attention reads another buffer than the GEMM wrote, so that it must not add the GEMM's bias.
TEST_P(BiasTest, AttentionOverAnotherBuffer) {
  const auto ranges = make_ranges(std::vector<uint32_t>{20, 30}, kSlots);
  const Sums before = sums(192, ranges, GemmMode::kConcurrent);
  const auto other = random_activations(50 * 192);
  const SegmentRows segments[] = {{0, 20}, {20, 30}};
  const uint32_t offsets[] = {0, 20, 50};
  stream_->launch(before.gemm);
  std::byte* out = make_output(50 * 64, activation());
  stream_->launch(kernels::Attention{.qkv = upload_activations(other),
                                     .out = out,
                                     .segments = segments,
                                     .num_heads = 2,
                                     .head_size = 32,
                                     .scale = 0.125f});
  expect_close(download_activations(out, 50 * 64),
               reference::attention(other, offsets, 2, 32, 0.125), 2.5 * unit() + 1e-5, "other");
  const auto sum = download_activations(before.gemm.out, 50 * 192);
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], rounded(before.expected[i]));
}

TEST_P(BiasTest, LayerNormAddsBias) {
  constexpr uint32_t kHidden = 72;
  const auto ranges = make_ranges(std::vector<uint32_t>{13, 1, 30}, kSlots);
  const std::vector<RowRange> one = {{.first_row = 0, .num_rows = 44, .slot = 1}};
  const Slab gamma = upload_slab({3, std::vector<float>(kHidden, 1.0f)}, DType::kF32);
  const Slab beta = upload_slab({3, std::vector<float>(kHidden, 0.0f)}, DType::kF32);
  const std::vector<float> more = random_values(kHidden);
  const Slab bias = upload_slab({more, more, more}, DType::kF32);
  struct Way {
    const char* what;
    bool has_residual = true, is_twice = false, has_bias = false, of_one = false;
  };
  for (const Way& way : {Way{"with a residual"}, Way{.what = "alone", .has_residual = false},
                         Way{.what = "both addends", .is_twice = true},
                         Way{.what = "with a second bias", .has_bias = true},
                         Way{.what = "of another tenant", .of_one = true}}) {
    const Sums sum = sums(kHidden, ranges, GemmMode::kConcurrent);
    const auto residual = random_activations(44 * kHidden);
    stream_->launch(sum.gemm);
    std::byte* out = make_output(44 * kHidden, activation());
    stream_->launch(kernels::ResidualLayerNorm{.x = sum.gemm.out,
                                               .bias = way.has_bias ? bias : Slab{},
                                               .residual = way.is_twice ? sum.gemm.out
                                                           : way.has_residual
                                                               ? upload_activations(residual)
                                                               : nullptr,
                                               .gamma = gamma,
                                               .beta = beta,
                                               .hidden = kHidden,
                                               .ranges = way.of_one ? one : ranges,
                                               .out = out});
    std::vector<double> expected;
    const std::vector<float> ones(kHidden, 1.0f), zeros(kHidden, 0.0f);
    for (uint32_t r = 0; r < 44; ++r) {
      std::vector<double> row(kHidden);
      for (uint32_t i = 0; i < kHidden; ++i)
        row[i] = sum.expected[r * kHidden + i] * (way.is_twice ? 2.0 : 1.0) +
                 (way.has_residual && !way.is_twice ? residual[r * kHidden + i] : 0.0) +
                 (way.has_bias ? more[i] : 0.0);
      const auto normalized = reference::layer_norm(row, ones, zeros, 1e-12);
      expected.insert(expected.end(), normalized.begin(), normalized.end());
    }
    expect_close(download_activations(out, 44 * kHidden), expected, 3 * unit() + 1e-5, way.what);
  }
}

}  // namespace
}  // namespace itif::kernels
