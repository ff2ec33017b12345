// The operators of the thesis fusion mode: add-bias, splitting and merging heads, batched products,
// softmax.
#include <algorithm>
#include <numeric>

#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

class ThesisTest : public DeviceTest {
 protected:
  struct Padded {
    uint32_t num_rows, num_tokens;
  };
  // Segments end to end, after `gap` rows that belong to none.
  static std::vector<PaddedSegment> segments(const std::vector<Padded>& of, uint32_t num_heads,
                                             uint32_t gap = 0) {
    std::vector<PaddedSegment> all;
    uint32_t row = gap;
    size_t score = 0;
    for (const Padded& one : of) {
      all.push_back({row, one.num_rows, one.num_tokens, score});
      row += one.num_rows;
      score += size_t{num_heads} * one.num_rows * one.num_rows;
    }
    return all;
  }
  // Returns the index of a row's value in the layout by heads.
  static size_t by_heads(const PaddedSegment& s, size_t heads, size_t head_size, size_t row,
                         size_t head, size_t i) {
    return s.first_row * heads * head_size + (head * s.num_rows + row - s.first_row) * head_size +
           i;
  }
  void run_bias(Activation activation_of, uint32_t width, const std::vector<uint32_t>& rows_of,
                bool has_bias = true, bool has_thesis_grid = false);
  void run_heads(uint32_t heads, uint32_t head_size, const std::vector<Padded>& of);
  void run_gemm(std::vector<MatrixBatch> batches, bool is_b_transposed);
};
ITIF_DEVICE_SUITE(ThesisTest);

void ThesisTest::run_bias(Activation activation_of, uint32_t width,
                          const std::vector<uint32_t>& rows_of, bool has_bias,
                          bool has_thesis_grid) {
  const uint32_t slots[] = {1, 0, 2};
  const auto ranges = make_ranges(rows_of, slots);
  const auto slot_of = slot_of_rows(ranges);
  std::vector<std::vector<float>> bias;
  for (int s = 0; s < 3; ++s) bias.push_back(random_values(width));
  const auto x = random_activations(slot_of.size() * width, 2.0);
  std::byte* device_x = upload_activations(x);
  stream_->launch(
      kernels::BiasActivation{.x = device_x,
                              .bias = has_bias ? upload_slab(bias, DType::kF32) : Slab{},
                              .width = width,
                              .activation = activation_of,
                              .ranges = ranges,
                              .has_thesis_grid = has_thesis_grid});
  std::vector<double> expected;
  for (size_t i = 0; i < x.size(); ++i)
    expected.push_back(reference::activate(
        activation_of, double{x[i]} + (has_bias ? bias[slot_of[i / width]][i % width] : 0.0)));
  expect_close(download_activations(device_x, x.size()), expected, 1.01 * unit() + 2e-5,
               "width " + std::to_string(width));
}

TEST_P(ThesisTest, AddsEachTenantsBiasAndActivates) {
  for (const Activation activation_of :
       {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu,
        Activation::kTanh, Activation::kSilu})
    for (const uint32_t width : {1u, 7u, 36u, 63u, 768u, 3072u})
      for (const bool has_thesis_grid : {false, true})
        run_bias(activation_of, width, {3, 0, 1, 9}, true, has_thesis_grid);
  run_bias(Activation::kGelu, 768, {5, 2}, false);
  run_bias(Activation::kGelu, 768, {5, 2}, false, true);
}

// Narrow rows, more than a GPU's grid has blocks in any dimension but x.
TEST_P(ThesisTest, AddsBiasesToMoreRowsThanGridHeight) {
  run_bias(Activation::kGelu, 8, {40'001, 3, 25'533});
  run_bias(Activation::kGelu, 8, {40'001, 3, 25'533}, true, true);
}

// On a GPU, results of any size are rounded once, and NaN stays NaN.
TEST_P(ThesisTest, ActivatesExtremeValues) {
  const double least = device_->info().kind == "cuda" ? 3e-7 : 1.6e-5;
  for (const Activation activation_of :
       {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
    std::vector<float> x = {INFINITY, -0.0f, std::nanf(""), 1e4f, -1e4f, 0.0f, 13.0f, -30.0f};
    for (int i = -640; i < 640; ++i) x.push_back(rounded(static_cast<float>(i) / 64.0f));
    for (int i = 0; i < 16; ++i) x.push_back(std::ldexp(1.0f, -i));
    std::byte* device_x = upload_activations(x);
    const uint32_t width = static_cast<uint32_t>(x.size());
    const RowRange range{.first_row = 0, .num_rows = 1, .slot = 0};
    stream_->launch(kernels::BiasActivation{.x = device_x,
                                            .bias = {},
                                            .width = width,
                                            .activation = activation_of,
                                            .ranges = {&range, 1}});
    const auto got = download_activations(device_x, width);
    EXPECT_EQ(got[0], INFINITY);
    EXPECT_TRUE(std::isnan(got[2]));
    for (size_t i = 3; i < got.size(); ++i) {
      const double expected = reference::activate(activation_of, x[i]);
      EXPECT_NEAR(got[i], expected, (1.02 * unit() + 2e-7) * std::abs(expected) + least) << x[i];
    }
  }
}

void ThesisTest::run_heads(uint32_t heads, uint32_t head_size, const std::vector<Padded>& of) {
  constexpr uint32_t kGap = 2;
  const uint32_t hidden = heads * head_size;
  const auto all = segments(of, heads, kGap);
  const uint32_t rows = all.empty() ? kGap : all.back().first_row + all.back().num_rows;
  // Tenants change within segments and at their boundaries.
  const uint32_t rows_of[] = {rows / 3, rows / 4, rows - rows / 3 - rows / 4};
  const uint32_t slots[] = {2, 0, 1};
  const auto ranges = make_ranges(rows_of, slots);
  const auto slot_of = slot_of_rows(ranges);
  std::vector<std::vector<float>> bias;
  for (int s = 0; s < 3; ++s) bias.push_back(random_values(hidden));
  const auto x = random_activations(rows * hidden), y = random_activations(rows * hidden);
  std::byte* out_x = make_output(rows * hidden, activation());
  std::byte* out_y = make_output(rows * hidden, activation());
  const HeadPart parts[] = {{upload_activations(x), upload_slab(bias, DType::kF32), out_x},
                            {upload_activations(y), {}, out_y}};
  stream_->launch(kernels::SplitHeads{.parts = parts,
                                      .segments = all,
                                      .ranges = ranges,
                                      .num_heads = heads,
                                      .head_size = head_size});
  std::byte* merged = make_output(rows * hidden, activation());
  stream_->launch(kernels::MergeHeads{
      .x = out_y, .out = merged, .segments = all, .num_heads = heads, .head_size = head_size});
  const auto untouched = download_activations(make_output(1, activation()), 1)[0];
  std::vector<double> expected_x(rows * hidden, untouched), expected_y = expected_x,
                                                            expected_merged = expected_x;
  for (const PaddedSegment& s : all)
    for (size_t row = s.first_row; row < s.first_row + s.num_rows; ++row)
      for (size_t i = 0; i < hidden; ++i) {
        const size_t at = row * hidden + i;
        const size_t apart = by_heads(s, heads, head_size, row, i / head_size, i % head_size);
        expected_x[apart] = double{x[at]} + bias[slot_of[row]][i];
        expected_y[apart] = y[at];
        expected_merged[at] = y[at];
      }
  const std::string what = std::to_string(heads) + " heads of " + std::to_string(head_size);
  expect_close(download_activations(out_x, rows * hidden), expected_x, unit(), what);
  expect_close(download_activations(out_y, rows * hidden), expected_y, 0, what);
  expect_close(download_activations(merged, rows * hidden), expected_merged, 0, what + " merged");
}

TEST_P(ThesisTest, SplitsAndMergesHeads) {
  run_heads(3, 7, {{5, 4}, {1, 1}, {13, 13}});
  run_heads(12, 64, {{33, 20}, {64, 64}, {64, 1}});
  run_heads(1, 1, {{3, 2}});
  run_heads(2, 250, {{9, 9}, {17, 3}});
  run_heads(4, 20, {{1, 1}, {1, 1}, {1, 1}});
  run_heads(4, 20, {});
}

void ThesisTest::run_gemm(std::vector<MatrixBatch> batches, bool is_b_transposed) {
  size_t a_size = 3, b_size = 5, out_size = 1;  // unaligned offsets
  for (MatrixBatch& batch : batches) {
    batch.a = a_size;
    batch.b = b_size;
    batch.out = out_size;
    a_size += size_t{batch.m} * batch.k * batch.count;
    b_size += size_t{batch.n} * batch.k * batch.count;
    out_size += size_t{batch.m} * batch.n * batch.count;
  }
  const auto a = random_activations(a_size), b = random_activations(b_size);
  std::byte* out = make_output(out_size, activation());
  stream_->launch(kernels::BatchedGemm{.a = upload_activations(a),
                                       .b = upload_activations(b),
                                       .is_b_transposed = is_b_transposed,
                                       .out = out,
                                       .batches = batches});
  std::vector<double> expected(out_size, download_activations(make_output(1, activation()), 1)[0]);
  uint32_t most = 1;
  for (const MatrixBatch& t : batches) {
    most = std::max(most, t.k);
    for (size_t i = 0; i < t.count; ++i)
      for (size_t r = 0; r < t.m; ++r)
        for (size_t c = 0; c < t.n; ++c) {
          double sum = 0;
          for (size_t j = 0; j < t.k; ++j)
            sum += double{a[t.a + (i * t.m + r) * t.k + j]} *
                   b[t.b + i * t.n * t.k + (is_b_transposed ? c * t.k + j : j * t.n + c)];
          expected[t.out + (i * t.m + r) * t.n + c] = sum;
        }
  }
  // Rounded once; f32 sums of products of size 1.
  expect_close(download_activations(out, out_size), expected, 1.01 * unit() + 3e-7 * most,
               std::to_string(batches.size()) + " batches");
}

TEST_P(ThesisTest, BatchedProducts) {
  for (const bool is_b_transposed : {true, false}) {
    run_gemm({{.m = 64, .n = 64, .k = 64, .count = 12}}, is_b_transposed);
    run_gemm({{.m = 5, .n = 5, .k = 7, .count = 3}, {.m = 33, .n = 33, .k = 7, .count = 1}},
             is_b_transposed);
    run_gemm({{.m = 1, .n = 1, .k = 1, .count = 9}}, is_b_transposed);
    run_gemm({{.m = 17, .n = 250, .k = 31, .count = 2}, {.m = 3, .n = 1, .k = 256, .count = 2}},
             is_b_transposed);
    run_gemm({{.m = 0, .n = 4, .k = 4, .count = 2}, {.m = 4, .n = 3, .k = 2, .count = 0}},
             is_b_transposed);
    run_gemm({}, is_b_transposed);
    // Long products, which are cut into tasks.
    run_gemm({{.m = 701, .n = 701, .k = 20, .count = 1}, {.m = 300, .n = 96, .k = 300, .count = 1}},
             is_b_transposed);
  }
}

TEST_P(ThesisTest, SoftmaxOverTokensOnly) {
  for (const uint32_t heads : {1u, 3u, 12u}) {
    const auto all = segments({{5, 3}, {1, 1}, {4, 0}, {37, 37}, {64, 33}, {17, 16}}, heads);
    const size_t count = all.back().first_score + size_t{heads} * 17 * 17;
    auto x = random_activations(count, 40.0);  // e^300 exceeds f32
    for (const PaddedSegment& s : all)         // scores at padding must not matter
      for (size_t i = 0; i < size_t{heads} * s.num_rows * s.num_rows; ++i)
        if (i % s.num_rows >= s.num_tokens) x[s.first_score + i] = std::nanf("");
    std::byte* device_x = upload_activations(x);
    constexpr float kScale = 0.37f;
    stream_->launch(kernels::Softmax{
        .x = device_x, .segments = all, .num_heads = heads, .head_size = 64, .scale = kScale});
    std::vector<double> expected(count);
    for (const PaddedSegment& s : all)
      for (size_t row = 0; row < size_t{heads} * s.num_rows; ++row) {
        const size_t first = s.first_score + row * s.num_rows;
        double most = -INFINITY, sum = 0;
        for (size_t i = first; i < first + s.num_tokens; ++i)
          most = std::max(most, double{x[i]} * kScale);
        for (size_t i = first; i < first + s.num_tokens; ++i)
          sum += expected[i] = std::exp(double{x[i]} * kScale - most);
        for (size_t i = first; i < first + s.num_tokens; ++i) expected[i] /= sum;
      }
    // Scores of up to 60, rounded in f32 before the exponential.
    expect_close(download_activations(device_x, count), expected, 0.51 * unit() + 1e-5,
                 std::to_string(heads) + " heads");
  }
}

TEST_P(ThesisTest, SoftmaxOfMoreSegmentsThanGridHeight) {
  std::vector<PaddedSegment> all(65'537);
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = {i, 1, i % 2, i};
  std::byte* device_x = upload_activations(random_activations(all.size()));
  stream_->launch(kernels::Softmax{
      .x = device_x, .segments = all, .num_heads = 1, .head_size = 64, .scale = 1.0f});
  const auto got = download_activations(device_x, all.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<float>(i % 2)) << i;
}

// The longest row selects the kernel: rows that fill a lane's packs, or only a part of them.
TEST_P(ThesisTest, SoftmaxOfAnyLength) {
  for (const uint32_t length : {8u, 31u, 64u, 65u, 128u, 136u, 250u, 512u, 1000u, 1024u, 1032u}) {
    const auto all = segments({{length, length - 3}, {3, 2}, {8, 8}}, 2);
    const size_t count = all.back().first_score + 2 * 64;
    const auto x = random_activations(count, 3.0);
    std::byte* device_x = upload_activations(x);
    stream_->launch(kernels::Softmax{
        .x = device_x, .segments = all, .num_heads = 2, .head_size = 18, .scale = 0.7f});
    std::vector<double> expected(count);
    for (const PaddedSegment& s : all)
      for (size_t row = 0; row < size_t{2} * s.num_rows; ++row) {
        const size_t first = s.first_score + row * s.num_rows;
        double sum = 0;
        for (size_t i = first; i < first + s.num_tokens; ++i)
          sum += expected[i] = std::exp(double{x[i]} * 0.7);
        for (size_t i = first; i < first + s.num_tokens; ++i) expected[i] /= sum;
      }
    expect_close(download_activations(device_x, count), expected, 0.51 * unit() + 1e-6,
                 std::to_string(length));
  }
}

// Rows too long for a kernel that keeps them in registers.
TEST_P(ThesisTest, SoftmaxOfLongRows) {
  const std::vector<PaddedSegment> all = {{0, 2101, 2090, 0}};
  const auto x = random_activations(2101 * 2101);
  std::byte* device_x = upload_activations(x);
  stream_->launch(kernels::Softmax{
      .x = device_x, .segments = all, .num_heads = 1, .head_size = 64, .scale = 1.0f});
  const auto got = download_activations(device_x, x.size());
  for (const size_t row : {0u, 1000u, 2100u}) {
    double sum = 0;
    for (size_t i = 0; i < 2090; ++i) sum += std::exp(double{x[row * 2101 + i]});
    for (const size_t i : {0u, 17u, 2089u})
      EXPECT_NEAR(got[row * 2101 + i], std::exp(double{x[row * 2101 + i]}) / sum,
                  0.01 * std::exp(double{x[row * 2101 + i]}) / sum);
    EXPECT_EQ(got[row * 2101 + 2090], 0.0f);
  }
}

}  // namespace
}  // namespace itif::kernels
