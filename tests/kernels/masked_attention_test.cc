// Attention with score matrices that several segments share (TCB, equations 5, 6 and 8): every
// segment's result is that of the segment alone.
#include <algorithm>
#include <array>

#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

// A score matrix: the lengths of its segments, then padding.
struct MatrixCase {
  std::vector<uint32_t> lengths;
  uint32_t padding = 0;
};

class MaskedAttentionTest : public DeviceTest {
 protected:
  struct Case {
    uint32_t num_heads = 2, head_size = 32;
    std::vector<MatrixCase> matrices;
    double score_scale = 1.0;  // of q: larger ones sharpen the softmax
  };
  struct Rows {
    std::vector<SegmentRows> segments, matrices;
    uint32_t count = 0;
  };
  static Rows rows_of(const Case& c) {
    Rows rows;
    for (const MatrixCase& matrix : c.matrices) {
      rows.matrices.push_back({rows.count, 0});
      for (const uint32_t length : matrix.lengths) {
        rows.segments.push_back({rows.count, length});
        rows.count += length;
      }
      rows.count += matrix.padding;
      rows.matrices.back().num_rows = rows.count - rows.matrices.back().first_row;
    }
    return rows;
  }
  std::vector<float> run(const Case& c, const Rows& rows, std::span<const float> qkv) {
    const size_t hidden = c.num_heads * c.head_size;
    std::byte* out = make_output(rows.count * hidden, activation());
    stream_->launch(kernels::Attention{.qkv = upload_activations(qkv),
                                       .out = out,
                                       .segments = rows.segments,
                                       .score_matrices = rows.matrices,
                                       .num_heads = c.num_heads,
                                       .head_size = c.head_size,
                                       .scale = 1 / std::sqrt(static_cast<float>(c.head_size))});
    return download_activations(out, rows.count * hidden);
  }
  // Compares segment `index` with the reference of that segment alone.
  void expect_alone(const Case& c, const Rows& rows, size_t index, std::span<const float> qkv,
                    std::span<const float> got, const std::string& what) {
    const size_t hidden = c.num_heads * c.head_size;
    const SegmentRows& segment = rows.segments[index];
    expect_close(got.subspan(segment.first_row * hidden, segment.num_rows * hidden),
                 reference::attention(
                     qkv.subspan(segment.first_row * 3 * hidden, segment.num_rows * 3 * hidden),
                     std::array{0u, segment.num_rows}, c.num_heads, c.head_size,
                     1 / std::sqrt(static_cast<double>(c.head_size))),
                 2.5 * unit() + 1e-5 * c.score_scale, what + ", segment " + std::to_string(index));
  }
  std::vector<float> make_qkv(const Case& c, const Rows& rows) {
    const size_t hidden = c.num_heads * c.head_size;
    auto qkv = random_activations(rows.count * 3 * hidden);
    for (size_t i = 0; i < qkv.size(); ++i)
      if (i / hidden % 3 == 0) qkv[i] = rounded(static_cast<float>(qkv[i] * c.score_scale));
    return qkv;
  }
  void expect_each_alone(const Case& c, const std::string& what) {
    const Rows rows = rows_of(c);
    const auto qkv = make_qkv(c, rows);
    const auto got = run(c, rows, qkv);
    for (size_t i = 0; i < rows.segments.size(); ++i) expect_alone(c, rows, i, qkv, got, what);
  }
};
ITIF_SUITE_OF(MaskedAttentionTest, attention_cases());

// Every order of four requests, divided into rows in every way. A simulated GPU takes a sixth of
// the orders.
TEST_P(MaskedAttentionTest, EveryArrangementOfFourRequestsInRows) {
  std::array<uint32_t, 4> lengths = {1, 2, 7, 20};
  uint32_t order = 0;
  do {
    if (device_->info().kind == "cuda" && order++ % 6 != 0) continue;
    for (uint32_t cuts = 0; cuts < 8; ++cuts) {
      Case c{.num_heads = 1, .head_size = 16, .matrices = {{}}};
      for (uint32_t i = 0; i < lengths.size(); ++i) {
        if (i > 0 && (cuts >> (i - 1) & 1) != 0) c.matrices.push_back({});
        c.matrices.back().lengths.push_back(lengths[i]);
        c.matrices.back().padding = (i + cuts) % 3;
      }
      expect_each_alone(c, "cuts " + std::to_string(cuts));
    }
  } while (std::ranges::next_permutation(lengths).found);
}

TEST_P(MaskedAttentionTest, HeadSizes) {
  for (const uint32_t head_size : {1u, 12u, 16u, 48u, 64u, 128u, 250u})
    expect_each_alone({.num_heads = 2,
                       .head_size = head_size,
                       .matrices = {{{5, 1, 37}, 3}, {{9}, 0}, {{2, 2, 2}, 11}}},
                      "heads of " + std::to_string(head_size));
}

// Matrices longer than a tile of queries or of keys: whole tiles of keys are masked, before a
// query's own keys and after them.
TEST_P(MaskedAttentionTest, LongRows) {
  expect_each_alone({.matrices = {{{64, 64, 64}, 0}, {{63, 1, 65, 2, 129}, 40}}}, "long rows");
  expect_each_alone({.num_heads = 1, .head_size = 64, .matrices = {{{1, 300, 1, 17, 33}, 30}}},
                    "a longer row");
}

// A slot whose requests were refused has only padding.
TEST_P(MaskedAttentionTest, RowsOfPaddingOnly) {
  expect_each_alone({.matrices = {{{}, 7}, {{3, 4}, 1}, {{}, 70}, {{5}, 0}}}, "empty rows");
}

// Softmax must subtract the maximum of the segment's own scores.
TEST_P(MaskedAttentionTest, LargeScoresDoNotOverflow) {
  expect_each_alone({.head_size = 64, .matrices = {{{40, 9, 30}, 5}}, .score_scale = 40.0},
                    "large scores");
}

// Without the mask, the same rows give other results: the tests above cannot pass by chance.
TEST_P(MaskedAttentionTest, TheMaskMatters) {
  const Case c{.matrices = {{{5, 9, 20}, 0}}};
  Rows rows = rows_of(c);
  const auto qkv = make_qkv(c, rows);
  const auto masked = run(c, rows, qkv);
  rows.segments = rows.matrices;
  const auto whole = run(c, rows, qkv);
  double most = 0;
  for (size_t i = 0; i < masked.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(masked[i]) - whole[i]));
  EXPECT_GT(most, 0.5);
}

// A tenant whose model overflows must not reach the others of its row: 0 · ∞ is NaN.
TEST_P(MaskedAttentionTest, InfinitiesAndNansStayInTheirSegment) {
  const Case c{.matrices = {{{3, 37, 5, 66}, 4}}};
  const Rows rows = rows_of(c);
  const size_t width = size_t{3} * c.num_heads * c.head_size;
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    auto qkv = make_qkv(c, rows);
    for (const auto& [first, last] : {std::pair{0u, 3u}, {40u, 45u}, {111u, 115u}})
      std::fill(qkv.begin() + first * width, qkv.begin() + last * width, bad);
    const auto got = run(c, rows, qkv);
    for (const size_t clean : {1u, 3u})
      expect_alone(c, rows, clean, qkv, got, "beside " + std::to_string(bad));
  }
}

TEST_P(MaskedAttentionTest, PaddingIsNotWritten) {
  const Case c{.matrices = {{{5}, 3}, {{37, 2}, 5}}};
  const Rows rows = rows_of(c);
  const size_t hidden = c.num_heads * c.head_size;
  const auto untouched = download_activations(make_output(hidden, activation()), hidden)[0];
  const auto got = run(c, rows, make_qkv(c, rows));
  for (const uint32_t row : {5u, 7u, 47u, 51u}) EXPECT_EQ(got[row * hidden + 3], untouched) << row;
}

}  // namespace
}  // namespace itif::kernels
