// The small heads in f32, all tenants in one launch. A warp handles one column of up to eight rows,
// its lanes along k, so that each weight is read once for all of them. A row's sum has the same
// order whatever the other rows are.
#include <algorithm>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kRowsAtOnce = 8;

template <uint32_t kWidth>
__device__ void load(const float* from, float (&to)[kWidth]) {
  if constexpr (kWidth == 4) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(from));
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else {
    static_assert(kWidth == 1);
    to[0] = __ldg(from);
  }
}

// Lane r returns the sum of row first + r, for rows [first, last). Rows past the last repeat the
// last one.
template <uint32_t kRows, uint32_t kWidth>
__device__ float sum_of_lane(const SmallLinear& args, uint32_t column, uint32_t first,
                             uint32_t last) {
  const float* weight = args.weight + size_t{column} * args.k;
  const float* x[kRows];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) x[r] = args.x + size_t{min(first + r, last - 1)} * args.k;
  float sums[kRows] = {};
#pragma unroll(kRows == 1 ? 4 : 1)
  for (uint32_t i = threadIdx.x * kWidth; i < args.k; i += kWarp * kWidth) {
    float of_weight[kWidth], of_x[kRows][kWidth];
    load(weight + i, of_weight);
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) load(x[r] + i, of_x[r]);
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r)
      for (uint32_t v = 0; v < kWidth; ++v) sums[r] += of_x[r][v] * of_weight[v];
  }
  float mine = 0;
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    const float sum = warp_sum(sums[r]);
    if (threadIdx.x == r) mine = sum;
  }
  return mine;
}

__global__ void small_linears_kernel(const SmallLinear* items) {
  const SmallLinear args = items[blockIdx.z];
  const uint32_t column = blockIdx.y * kRowsPerBlock + threadIdx.y;
  const uint32_t first = blockIdx.x * kRowsAtOnce;
  if (column >= args.n || first >= args.rows) return;
  const uint32_t last = min(first + kRowsAtOnce, args.rows);
  const bool is_packed =
      args.k % 4 == 0 &&
      (reinterpret_cast<uintptr_t>(args.x) | reinterpret_cast<uintptr_t>(args.weight)) % 16 == 0;
  float sum;
  if (!is_packed)
    sum = sum_of_lane<kRowsAtOnce, 1>(args, column, first, last);
  else if (last - first == 1)
    sum = sum_of_lane<1, 4>(args, column, first, last);
  else
    sum = sum_of_lane<kRowsAtOnce, 4>(args, column, first, last);
  const uint32_t row = first + threadIdx.x;
  if (row >= last) return;
  if (args.bias != nullptr) sum += args.bias[column];
  args.out[size_t{row} * args.n + column] = activate(args.activation, sum);
}

}  // namespace

void run(const SmallLinears& args, Plan& plan) {
  const SmallLinear* items = plan.put(args.all);
  if (items == nullptr) return;
  const uint32_t num_items = count(args.all);
  uint32_t columns = 0, rows = 0;  // the most of any item
  for (const SmallLinear& item : args.all) {
    columns = std::max(columns, item.n);
    rows = std::max(rows, item.rows);
  }
  const Launcher& launch = plan.launcher(items, num_items, columns, rows);
  launch({.blocks = dim3(div_up(rows, kRowsAtOnce), div_up(columns, kRowsPerBlock), num_items),
          .threads = dim3(kWarp, kRowsPerBlock)},
         small_linears_kernel, items);
}

}  // namespace itif::kernels::cuda
