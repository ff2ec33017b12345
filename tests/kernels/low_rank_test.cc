// Low-rank updates of a GEMM's result, by adapter and module.
#include <algorithm>

#include "fixture.h"
#include "kernels/low_rank_args.h"

namespace itif::kernels {
namespace {

class LowRankTest : public DeviceTest {
 protected:
  struct Case {
    uint32_t k = 0, columns = 0;  // of a module
    uint32_t num_modules = 1, first_module = 0;
    // By adapter: its rows, and the rank of each module.
    std::vector<uint32_t> rows;
    std::vector<std::vector<uint32_t>> ranks;
    uint32_t gap = 0;  // rows of no adapter before each
  };
  void run(const Case& of);
};
ITIF_DEVICE_SUITE(LowRankTest);

void LowRankTest::run(const Case& of) {
  const uint32_t width = of.columns * of.num_modules;
  uint32_t num_rows = 0;
  for (const uint32_t rows : of.rows) num_rows += of.gap + rows;
  num_rows += of.gap;
  const auto x = random_activations(size_t{num_rows} * of.k);
  const auto before = random_activations(size_t{num_rows} * width);
  std::vector<double> expected(before.begin(), before.end());
  std::vector<AdapterRows> adapters;
  uint32_t row = 0, most = 0;
  for (size_t a = 0; a < of.rows.size(); ++a) {
    row += of.gap;
    std::vector<LowRankModule> modules(of.first_module);
    uint32_t max_rank = 0;
    for (uint32_t m = 0; m < of.num_modules; ++m) {
      const uint32_t rank = of.ranks[a][m];
      max_rank = std::max(max_rank, rank);
      const auto down = random_activations(size_t{of.k} * rank, 1 / std::sqrt(of.k));
      const auto up = random_activations(size_t{rank} * of.columns, 0.5);
      modules.push_back({.down = rank ? upload_activations(down) : nullptr,
                         .up = rank ? upload_activations(up) : nullptr,
                         .rank = rank});
      for (uint32_t r = row; r < row + of.rows[a]; ++r)
        for (uint32_t j = 0; j < rank; ++j) {
          double between = 0;
          for (uint32_t i = 0; i < of.k; ++i)
            between += double{x[size_t{r} * of.k + i]} * down[size_t{i} * rank + j];
          for (uint32_t c = 0; c < of.columns; ++c)
            expected[size_t{r} * width + m * of.columns + c] +=
                between * up[size_t{j} * of.columns + c];
        }
    }
    const size_t bytes = modules.size() * sizeof(LowRankModule);
    auto table = device_->allocate(bytes).value();
    const TensorView view{reinterpret_cast<const std::byte*>(modules.data()), DType::kF32,
                          Shape{bytes / sizeof(uint32_t)}};
    ASSERT_TRUE(device_->upload(view, DType::kF32, table->data()));
    adapters.push_back({.first_row = row,
                        .num_rows = of.rows[a],
                        .max_rank = max_rank,
                        .modules = reinterpret_cast<const LowRankModule*>(table->data())});
    buffers_.push_back(std::move(table));
    row += of.rows[a];
    most = std::max(most, max_rank);
  }
  std::byte* out = upload_activations(before);
  stream_->launch(AddLowRank{.x = upload_activations(x),
                             .out = out,
                             .k = of.k,
                             .width = width,
                             .adapters = adapters,
                             .first_module = of.first_module,
                             .num_modules = of.num_modules});
  ASSERT_TRUE(stream_->synchronize());
  // x · down is of size 1 and may be rounded; so is the sum, once per block of ranks.
  const double rounding = std::sqrt(static_cast<double>(most)) * 0.5 * 2 * unit();
  expect_close(download_activations(out, expected.size()), expected,
               1.01 * unit() * (2 + most / 32) + rounding + 1e-5 + 3e-8 * of.k,
               std::to_string(of.k) + " to " + std::to_string(width));
}

TEST_P(LowRankTest, AddsEachAdaptersUpdate) {
  run({.k = 64, .columns = 64, .rows = {16}, .ranks = {{8}}});
  run({.k = 768, .columns = 768, .rows = {64, 0, 5, 70}, .ranks = {{8}, {8}, {64}, {16}}});
  run({.k = 96, .columns = 384, .rows = {1, 130}, .ranks = {{16}, {8}}, .gap = 3});
}

// Query and value of a stacked GEMM, but not the key.
TEST_P(LowRankTest, LeavesModulesWithoutUpdate) {
  run({.k = 64,
       .columns = 64,
       .num_modules = 3,
       .first_module = 5,
       .rows = {7, 33, 4},
       .ranks = {{8, 0, 8}, {0, 0, 0}, {24, 8, 0}},
       .gap = 2});
  run({.k = 128, .columns = 72, .num_modules = 3, .rows = {9}, .ranks = {{8, 16, 24}}});
}

// Sizes that are not multiples of a vector, and more than a block of ranks, depth and columns.
TEST_P(LowRankTest, TakesAnySize) {
  run({.k = 36, .columns = 36, .num_modules = 3, .rows = {5, 6}, .ranks = {{8, 0, 8}, {8, 8, 8}}});
  run({.k = 1, .columns = 1, .rows = {3}, .ranks = {{8}}});
  run({.k = 37, .columns = 101, .rows = {17, 1}, .ranks = {{8}, {16}}, .gap = 1});
  run({.k = 1100, .columns = 300, .rows = {65}, .ranks = {{200}}});
  run({.k = 1032, .columns = 264, .rows = {70, 2}, .ranks = {{136}, {72}}});
}

TEST_P(LowRankTest, DoesNothingWithoutAdapters) {
  run({.k = 8, .columns = 8, .rows = {}, .ranks = {}, .gap = 4});
  run({.k = 8, .columns = 8, .rows = {0, 0}, .ranks = {{8}, {8}}, .gap = 4});
}

}  // namespace
}  // namespace itif::kernels
