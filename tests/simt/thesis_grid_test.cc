// The thesis's launch geometry: equations 4.3 and 4.4, against numbers worked out by hand.
#include "kernels/cuda/thesis_grid.h"

#include <gtest/gtest.h>

#include <vector>

namespace itif::kernels::cuda {
namespace {

// Compute capability 8.6, 8.0 and 9.0. Source: CUDA's programming guide, "Technical
// Specifications per Compute Capability".
constexpr Processors kA5000 = {.count = 64, .max_threads = 1536, .max_blocks = 16};
constexpr Processors kA100 = {.count = 108, .max_threads = 2048, .max_blocks = 32};
constexpr Processors kH100 = {.count = 132, .max_threads = 2048, .max_blocks = 32};

TEST(ThesisGrid, IsTheEquationsOnKnownGpus) {
  struct Case {
    const char* what;
    Processors gpu;
    uint32_t hidden, rows, threads, blocks;
  };
  for (const Case& c : std::vector<Case>{
           {"BERT-base, 1536 / 768 = 2 blocks of 64 SMs", kA5000, 768, 1024, 768, 128},
           {"as many blocks as rows", kA5000, 768, 100, 768, 100},
           {"the last row that has a block of its own", kA5000, 768, 128, 768, 128},
           {"ALBERT-large, 1536 / 1024 = 1 block", kA5000, 1024, 1024, 1024, 64},
           {"the decoder, 1536 / 512 = 3 blocks", kA5000, 512, 1024, 512, 192},
           {"1536 / 64 = 24, but at most 16 blocks", kA5000, 64, 5000, 64, 1024},
           {"36 threads are 2 warps: 24, at most 16", kA5000, 36, 5000, 36, 1024},
           {"200 threads are 7 warps: 1536 / 224 = 6", kA5000, 200, 5000, 200, 384},
           {"4 blocks a row: 10 · 4096 / 1024", kA5000, 4096, 10, 1024, 40},
           {"4096 / 1024, bounded by 1 block of 64 SMs", kA5000, 4096, 17, 1024, 64},
           {"a remainder: 3 · 1536 / 1024 = 4.5", kA5000, 1536, 3, 1024, 5},
           {"2048 / 768 = 2 blocks of 108 SMs", kA100, 768, 1024, 768, 216},
           {"2048 / 1024 = 2 blocks", kA100, 1024, 1024, 1024, 216},
           {"2048 / 64 = 32 blocks", kA100, 64, 5000, 64, 3456},
           {"2048 / 768 = 2 blocks of 132 SMs", kH100, 768, 1024, 768, 264},
           {"2048 / 512 = 4 blocks", kH100, 512, 1024, 512, 528},
           {"2048 / 32 = 64, but at most 32 blocks", kH100, 32, 5000, 32, 4224},
           {"no rows", kH100, 768, 0, 768, 0}}) {
    const Grid grid = grid_of_thesis(c.hidden, c.rows, c.gpu);
    EXPECT_EQ(grid.threads.x, c.threads) << c.what;
    EXPECT_EQ(grid.blocks.x, c.blocks) << c.what;
  }
}

// Softmax: 12 heads of 8 sequences of 128, T = 768.
TEST(ThesisGrid, CountsScoresAsTheTotalSize) {
  EXPECT_EQ(blocks_of_thesis(768, 12 * 8 * 128 * 128, kA5000), 128u);
  EXPECT_EQ(blocks_of_thesis(768, 12 * 1 * 16 * 16, kA5000), 4u);
  EXPECT_EQ(blocks_of_thesis(768, 0, kA5000), 0u);
  EXPECT_EQ(blocks_of_thesis(0, 100, kA5000), 0u);
}

// Calls visit(row, column) for each pack of each thread; returns the number of blocks that work.
template <uint32_t kWidth, class Visit>
uint32_t for_each_pack(uint32_t hidden, uint32_t rows, const Grid& grid, const Visit& visit) {
  uint32_t working = 0;
  for (uint32_t block = 0; block < grid.blocks.x; ++block) {
    bool works = false;
    for (uint32_t thread = 0; thread < grid.threads.x; ++thread) {
      const GridStride stride =
          grid_stride<kWidth>(hidden, rows, grid.blocks.x, block, grid.threads.x, thread);
      for (uint32_t column = stride.column; column < stride.end_column;
           column += stride.column_step)
        for (uint32_t row = stride.first_row; row < rows; row += stride.row_step) {
          visit(row, column);
          works = true;
        }
    }
    working += works;
  }
  return working;
}

template <uint32_t kWidth>
void expect_each_pack_once(uint32_t hidden, uint32_t rows, const Processors& gpu) {
  const Grid grid = grid_of_thesis(hidden, rows, gpu);
  std::vector<uint32_t> visits(size_t{rows} * (hidden / kWidth));
  const uint32_t working =
      for_each_pack<kWidth>(hidden, rows, grid, [&](uint32_t row, uint32_t column) {
        ASSERT_LT(column, hidden);
        ASSERT_EQ(column % kWidth, 0u);
        ++visits[size_t{row} * (hidden / kWidth) + column / kWidth];
      });
  for (const uint32_t count : visits) ASSERT_EQ(count, 1u) << hidden << " x " << rows;
  // Half of them at least: the rows may not divide evenly.
  EXPECT_GE(2 * working, grid.blocks.x) << hidden << " x " << rows;
}

TEST(ThesisGrid, EveryPackIsOneThreads) {
  const Processors small = {.count = 4, .max_threads = 1536, .max_blocks = 16};
  for (const uint32_t hidden : {8u, 40u, 200u, 768u, 1024u, 1536u, 4096u, 8192u})
    for (const uint32_t rows : {1u, 2u, 3u, 7u, 9u, 33u, 130u}) {
      expect_each_pack_once<1>(hidden, rows, small);
      expect_each_pack_once<4>(hidden, rows, small);
      expect_each_pack_once<8>(hidden, rows, small);
    }
  expect_each_pack_once<1>(37, 50, small);
  expect_each_pack_once<1>(1025, 5, small);
}

}  // namespace
}  // namespace itif::kernels::cuda
