// Low-rank updates cut into tasks: a block of an adapter's rows, and a module. Threads draw tasks
// from a shared counter. A task computes x · down of its rows into its thread's scratch, and then
// adds the product with `up`, while the rows of `out` are in the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/low_rank_args.h"
#include "tensor/dtype.h"

namespace itif::kernels::host {

struct LowRankTask {
  LowRankModule module;
  uint32_t first_column = 0, num_columns = 0;  // of out
  uint32_t first_row = 0, num_rows = 0;        // of x and out
};
using LowRankFunction = void (*)(const AddLowRank& args, const LowRankTask& task,
                                 std::byte* scratch);

// Blocks of a task. Larger ranks and widths are computed in several.
inline constexpr uint32_t kLowRankRows = 64;
inline constexpr uint32_t kLowRankRanks = 128;
inline constexpr uint32_t kLowRankDepth = 1024;   // of x · down
inline constexpr uint32_t kLowRankColumns = 256;  // of the product with `up`
// Scratch of a thread: `down` and `up` packed for bf16 products, 16 rows of x, their products, and
// x · down of the task in f32 and bf16.
inline constexpr size_t kLowRankScratchBytes =
    size_t{2} * kLowRankDepth * kLowRankRanks + size_t{2} * kLowRankRanks * kLowRankColumns +
    size_t{2} * 16 * kLowRankDepth + size_t{4} * 16 * kLowRankColumns +
    size_t{6} * kLowRankRows * kLowRankRanks;

LowRankFunction low_rank_f32_task(DType activation);
// REQUIRES: the returned functions run only on CPUs that support the products.
LowRankFunction low_rank_avx512_bf16_task();
LowRankFunction low_rank_amx_bf16_task();

}  // namespace itif::kernels::host
