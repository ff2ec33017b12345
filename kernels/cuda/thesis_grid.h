// The thesis's launch geometry for memory-bound operators (ITIF, section 4.2.2, equations 4.3 and
// 4.4): T = min(H, 1024) threads per block, and B = min(R · SM, total size / T) blocks, with R
// resident blocks per multiprocessor (SM). The operators that the thesis names as rewritten or
// measured have it in its fusion mode: bias with or without activation, LayerNorm with its bias,
// softmax, and the transposes (section 5.1.1, Table 5.3). It names no embedding: EmbedLayerNorm and
// EmbedPatches keep their own grids.
//
// A thread of the thesis handles one value at a time. Ours moves a pack of values, so B blocks may
// have more threads than there are packs; the blocks then share the rows evenly (my_grid_stride).
#pragma once

#include "kernels/cuda/launch.h"

namespace itif::kernels::cuda {

inline constexpr uint32_t kMaxThreads = 1024;  // per block
// Resident blocks of kMaxThreads for which kernels are compiled: R at 2,048 threads per SM.
inline constexpr uint32_t kMinResidentBlocks = 2;

// T of equation 4.3.
constexpr uint32_t threads_of_thesis(uint32_t hidden) {
  return hidden < kMaxThreads ? hidden : kMaxThreads;
}
// B of equation 4.4. R is the SM's bound of blocks, or of threads if that is less; a block takes
// its threads by whole warps. A remainder of total_size / T gets a block, too.
constexpr uint32_t blocks_of_thesis(uint32_t threads, uint64_t total_size, const Processors& gpu) {
  if (threads == 0) return 0;
  const uint32_t by_threads = gpu.max_threads / (div_up(threads, 32) * 32);
  const uint32_t resident = by_threads < gpu.max_blocks ? by_threads : gpu.max_blocks;
  const uint64_t most = uint64_t{resident} * gpu.count;
  const uint64_t wanted = (total_size + threads - 1) / threads;
  return static_cast<uint32_t>(wanted < most ? wanted : most);
}

// For `rows` rows of `hidden` values.
constexpr Grid grid_of_thesis(uint32_t hidden, uint32_t rows, const Processors& gpu) {
  const uint32_t threads = threads_of_thesis(hidden);
  return {.blocks = dim3(blocks_of_thesis(threads, uint64_t{rows} * hidden, gpu)),
          .threads = dim3(threads)};
}

// A thread's part of the rows, in packs of kWidth values: rows from first_row on, and in each the
// packs that begin at `column` and every column_step values after it, before end_column.
struct GridStride {
  uint32_t first_row, row_step;
  uint32_t column, column_step, end_column;
};
// REQUIRES: a grid of grid_of_thesis(hidden, num_rows); num_rows > 0.
template <uint32_t kWidth>
__host__ __device__ inline GridStride grid_stride(uint32_t hidden, uint32_t num_rows,
                                                  uint32_t num_blocks, uint32_t block,
                                                  uint32_t num_threads, uint32_t thread) {
  const uint32_t packs = hidden / kWidth;
  if (num_blocks >= 2 * num_rows) {  // several blocks share a row
    const uint32_t sharing = num_blocks / num_rows, share = div_up(packs, sharing);
    const uint32_t begin = block % sharing * share, end = begin + share;
    return {block / sharing, num_rows, (begin + thread) * kWidth, num_threads * kWidth,
            (end < packs ? end : packs) * kWidth};
  }
  if (packs > num_threads)
    return {block, num_blocks, thread * kWidth, num_threads * kWidth, hidden};
  // A block handles several rows at a time, but so few that all blocks get rows.
  const uint32_t fit = num_threads / packs, even = div_up(num_rows, num_blocks);
  const uint32_t rows_per_pass = fit < even ? fit : even, row = thread / packs;
  return {block * rows_per_pass + row, num_blocks * rows_per_pass,
          row < rows_per_pass ? thread % packs * kWidth : hidden, hidden, hidden};
}
template <uint32_t kWidth>
__device__ GridStride my_grid_stride(uint32_t hidden, uint32_t num_rows) {
  return grid_stride<kWidth>(hidden, num_rows, gridDim.x, blockIdx.x, blockDim.x, threadIdx.x);
}

}  // namespace itif::kernels::cuda
