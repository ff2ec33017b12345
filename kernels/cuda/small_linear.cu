// The small heads in f32, those of all tenants in one launch: a warp an output, its lanes along k.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {
namespace {

__global__ void small_linears_kernel(const SmallLinear* items) {
  const SmallLinear args = items[blockIdx.z];
  const uint32_t column = my_row(), row = blockIdx.y;
  if (column >= args.n || row >= args.rows) return;
  const float* x = args.x + size_t{row} * args.k;
  const float* weight = args.weight + size_t{column} * args.k;
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < args.k; i += kWarp) sum += x[i] * weight[i];
  sum = warp_sum(sum);
  if (threadIdx.x != 0) return;
  if (args.bias != nullptr) sum += args.bias[column];
  args.out[size_t{row} * args.n + column] = activate(args.activation, sum);
}

}  // namespace

void small_linears(const Launcher& launch, const SmallLinear* items, uint32_t num_items,
                   uint32_t columns, uint32_t rows) {
  Grid grid = grid_of_rows(columns);
  grid.blocks.y = rows;
  grid.blocks.z = num_items;
  launch(grid, small_linears_kernel, items);
}

}  // namespace itif::kernels::cuda
