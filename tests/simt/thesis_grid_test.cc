// The thesis's launch geometry, from its equations.
#include "kernels/cuda/thesis_grid.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace itif::kernels::cuda {
namespace {

// Equations 4.3 and 4.4 with R = resident blocks and one value per thread.
TEST(ThesisGrid, FollowsTheEquations) {
  for (const uint32_t hidden : {36u, 128u, 768u, 1024u, 4096u})
    for (const uint32_t rows : {1u, 7u, 512u, 100'000u})
      for (const uint32_t multiprocessors : {1u, 64u, 132u}) {
        const Grid grid = grid_of_thesis(hidden, 1, rows, multiprocessors);
        const uint32_t threads = std::min(hidden, 1024u);
        const uint32_t resident = 2048 / threads;
        const uint64_t total = uint64_t{rows} * hidden;
        EXPECT_EQ(grid.threads.x, threads);
        if (hidden <= 1024) {
          EXPECT_EQ(grid.blocks.x, std::min<uint64_t>(resident * multiprocessors, total / threads));
        }
        EXPECT_LE(grid.blocks.x, resident * multiprocessors);
      }
}

// With packs of eight values a block handles eight rows at a time.
TEST(ThesisGrid, PacksShareABlock) {
  EXPECT_EQ(grid_of_thesis(768, 8, 64, 132).blocks.x, 8u);
  EXPECT_EQ(grid_of_thesis(768, 8, 64, 132).threads.x, 768u);
  EXPECT_EQ(grid_of_thesis(768, 8, 65, 132).blocks.x, 9u);
  EXPECT_EQ(grid_of_thesis(768, 8, 0, 132).blocks.x, 0u);
}

}  // namespace
}  // namespace itif::kernels::cuda
