// Residual and LayerNorm.
#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

class LayerNormTest : public DeviceTest {
 protected:
  struct Case {
    size_t hidden;
    std::vector<uint32_t> rows_of;
    bool has_residual = true;
    bool in_place = false;
    enum class Sum { kNone, kOwn, kResidual } sum = Sum::kNone;
    bool has_bias = false;
    double offset = 0;  // of all inputs: a large mean must not distort the variance
    bool has_thesis_grid = false;
  };
  // With each launch geometry.
  void run(Case c);
  void run_once(const Case& c);
};
ITIF_DEVICE_SUITE(LayerNormTest);

void LayerNormTest::run(Case c) {
  run_once(c);
  c.has_thesis_grid = true;
  run_once(c);
}

void LayerNormTest::run_once(const Case& c) {
  const uint32_t slots[] = {1, 0, 2};
  const auto ranges = make_ranges(c.rows_of, slots);
  const uint32_t rows = total_rows(ranges);
  std::vector<std::vector<float>> gamma, beta, bias;
  for (int s = 0; s < 3; ++s) {
    gamma.push_back(random_values(c.hidden, 0.2, 1.0));
    beta.push_back(random_values(c.hidden, 0.2));
    bias.push_back(random_values(c.hidden));
  }
  const auto x = random_activations(rows * c.hidden, 1.0, c.offset);
  const auto residual = random_activations(rows * c.hidden);
  std::byte* device_x = upload_activations(x);
  std::byte* out = c.in_place ? device_x : make_output(rows * c.hidden, activation());
  std::byte* device_residual = c.has_residual ? upload_activations(residual) : nullptr;
  std::byte* sum = c.sum == Case::Sum::kNone  ? nullptr
                   : c.sum == Case::Sum::kOwn ? make_output(rows * c.hidden, activation())
                                              : device_residual;
  stream_->launch(
      kernels::ResidualLayerNorm{.x = device_x,
                                 .bias = c.has_bias ? upload_slab(bias, DType::kF32) : Slab{},
                                 .residual = device_residual,
                                 .gamma = upload_slab(gamma, DType::kF32),
                                 .beta = upload_slab(beta, DType::kF32),
                                 .epsilon = 1e-12f,
                                 .hidden = static_cast<uint32_t>(c.hidden),
                                 .ranges = ranges,
                                 .out = out,
                                 .sum = sum,
                                 .has_thesis_grid = c.has_thesis_grid});
  std::vector<double> expected, expected_sum;
  const auto slot_of = slot_of_rows(ranges);
  for (uint32_t r = 0; r < rows; ++r) {
    std::vector<double> row(c.hidden);
    for (size_t i = 0; i < c.hidden; ++i)
      row[i] = double{x[r * c.hidden + i]} + (c.has_residual ? residual[r * c.hidden + i] : 0.0) +
               (c.has_bias ? bias[slot_of[r]][i] : 0.0);
    expected_sum.insert(expected_sum.end(), row.begin(), row.end());
    const auto normalized = reference::layer_norm(row, gamma[slot_of[r]], beta[slot_of[r]], 1e-12);
    expected.insert(expected.end(), normalized.begin(), normalized.end());
  }
  // The result is rounded once; f32 sums of `hidden` terms are less accurate about a large mean. A
  // stored sum is rounded before it is normalised.
  const double tolerance = (sum && (c.has_residual || c.has_bias) ? 4.0 : 1.01) * unit() +
                           2e-6 * (1 + std::abs(c.offset));
  expect_close(download_activations(out, rows * c.hidden), expected, tolerance,
               "hidden " + std::to_string(c.hidden));
  if (sum)
    expect_close(download_activations(sum, rows * c.hidden), expected_sum,
                 1.01 * unit() + (c.has_bias ? 3e-7 : 0),
                 "sum, hidden " + std::to_string(c.hidden));
}

TEST_P(LayerNormTest, SizesThatAreNoVectorMultiple) {
  for (const size_t hidden : {2u, 5u, 12u, 16u, 17u, 31u, 33u, 36u, 48u, 63u, 65u, 100u, 312u})
    run({.hidden = hidden, .rows_of = {3, 1, 5}});
}
TEST_P(LayerNormTest, SizesOfModels) {
  for (const size_t hidden : {128u, 384u, 768u, 1024u, 4096u, 4101u})
    run({.hidden = hidden, .rows_of = {9, 1, 23}});
}
TEST_P(LayerNormTest, ManyRangesOfOneRow) {
  run({.hidden = 36, .rows_of = std::vector<uint32_t>(101, 1)});
}
TEST_P(LayerNormTest, MoreRowsThanAGpuHoldsBlocks) {
  run({.hidden = 1030, .rows_of = {500, 9}});
}
TEST_P(LayerNormTest, EmptyRangesAndNoRanges) {
  run({.hidden = 64, .rows_of = {0, 3, 0, 0, 2, 0}});
  run({.hidden = 64, .rows_of = {}});
}
TEST_P(LayerNormTest, WithoutResidualAndInPlace) {
  run({.hidden = 36, .rows_of = {7}, .has_residual = false});
  run({.hidden = 36, .rows_of = {7, 4}, .in_place = true});
  run({.hidden = 36, .rows_of = {7, 4}, .has_residual = false, .in_place = true});
}
TEST_P(LayerNormTest, WritesTheSum) {
  using Sum = Case::Sum;
  for (const size_t hidden : {5u, 36u, 768u, 4101u}) {
    run({.hidden = hidden, .rows_of = {7, 4}, .sum = Sum::kOwn});
    run({.hidden = hidden, .rows_of = {7, 4}, .sum = Sum::kResidual});
    run({.hidden = hidden, .rows_of = {7, 4}, .in_place = true, .sum = Sum::kResidual});
    run({.hidden = hidden, .rows_of = {3}, .has_residual = false, .sum = Sum::kOwn});
  }
}
TEST_P(LayerNormTest, AddsEachTenantsBias) {
  using Sum = Case::Sum;
  for (const size_t hidden : {5u, 36u, 768u, 4101u}) {
    run({.hidden = hidden, .rows_of = {7, 4, 1}, .has_bias = true});
    run({.hidden = hidden, .rows_of = {3, 2}, .has_residual = false, .has_bias = true});
    run({.hidden = hidden, .rows_of = {7, 4}, .in_place = true, .has_bias = true});
    run({.hidden = hidden, .rows_of = {7, 4}, .sum = Sum::kResidual, .has_bias = true});
    run({.hidden = hidden,
         .rows_of = {3, 9},
         .has_residual = false,
         .sum = Sum::kOwn,
         .has_bias = true});
  }
}
TEST_P(LayerNormTest, LargeMeanDoesNotCancel) {
  run({.hidden = 768, .rows_of = {5}, .offset = 100.0});
}

}  // namespace
}  // namespace itif::kernels
