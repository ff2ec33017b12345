// The small heads in f32: a warp an output, its lanes along k.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {
namespace {

__global__ void small_linear_kernel(SmallLinear args) {
  const uint32_t column = my_row(), row = blockIdx.y;
  if (column >= args.n) return;
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

void small_linear(const Launcher& launch, const SmallLinear& args) {
  Grid grid = grid_of_rows(args.n);
  grid.blocks.y = args.rows;
  launch(grid, small_linear_kernel, args);
}

}  // namespace itif::kernels::cuda
