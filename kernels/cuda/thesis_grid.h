// The thesis's launch geometry for operators with model weights rotation (ITIF, section 4.2.2,
// equations 4.3 and 4.4): T = min(H, 1024) threads per block, and B = min(R · SM, total / T)
// blocks, with R resident blocks per multiprocessor. Each block iterates over rows. A thread moves
// a pack of values, so that a block handles several rows at a time.
#pragma once

#include "kernels/cuda/launch.h"

namespace itif::kernels::cuda {

inline constexpr uint32_t kMaxThreads = 1024;       // per block
inline constexpr uint32_t kResidentThreads = 2048;  // per multiprocessor

// For rows of `hidden` values of which a thread handles `width` at a time.
inline Grid grid_of_thesis(uint32_t hidden, uint32_t width, uint32_t rows,
                           uint32_t num_multiprocessors) {
  const uint32_t threads = hidden < kMaxThreads ? hidden : kMaxThreads;
  const uint32_t packs = hidden / width;
  const uint32_t blocks = div_up(rows, packs < threads ? threads / packs : 1);
  const uint32_t most = kResidentThreads / threads * num_multiprocessors;
  return {.blocks = dim3(blocks < most ? blocks : most), .threads = dim3(threads)};
}

// A thread's rows and columns in a grid-stride loop. In each row it handles kWidth values from
// `column` on.
struct GridStride {
  uint32_t first_row, rows_per_block;  // rows_per_block: that a block handles at a time
  uint32_t column, columns;            // the first, and the step to the next
};
template <uint32_t kWidth>
__device__ GridStride my_grid_stride(uint32_t hidden) {
  const uint32_t packs = hidden / kWidth;
  if (packs > blockDim.x) return {blockIdx.x, 1, threadIdx.x * kWidth, blockDim.x * kWidth};
  const uint32_t rows = blockDim.x / packs, row = threadIdx.x / packs;
  return {blockIdx.x * rows + row, rows, row < rows ? threadIdx.x % packs * kWidth : hidden,
          hidden};
}

}  // namespace itif::kernels::cuda
