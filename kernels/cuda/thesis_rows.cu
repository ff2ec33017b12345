// A block of the LayerNorm handles one row at a time, each thread every blockDim.x-th value.
#include "kernels/cuda/thesis_rows.h"

#include "kernels/cuda/activation.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/thesis_grid.h"

namespace itif::kernels::cuda {
namespace {

template <class T, uint32_t kWidth>
__global__ void __launch_bounds__(kMaxThreads) bias_kernel(BiasActivation args, Rows rows) {
  const GridStride stride = my_grid_stride<kWidth>(args.width, rows.count);
  for (uint32_t column = stride.column; column < stride.end_column; column += stride.column_step)
    for (uint32_t row = stride.first_row; row < rows.count; row += stride.row_step) {
      T* x = static_cast<T*>(args.x) + size_t{row} * args.width + column;
      Values<T, kWidth> values = values_at<kWidth>(x);
      Values<float, kWidth> bias = {};
      if (args.bias.base != nullptr)
        bias = values_at<kWidth>(slab_at<float>(args.bias, rows.slots[row]) + column);
      with_kind(args.activation, [&]<Activation kActivation>() {
#pragma unroll
        for (uint32_t i = 0; i < kWidth; ++i)
          values.values[i] = from_float<T>(
              activate_for<kActivation, T>(to_float(values.values[i]) + bias.values[i]));
      });
      store_at(x, values);
    }
}

// Sum over the block's threads. REQUIRES: whole warps; of_warps: one float per warp.
__device__ float block_sum(float value, float* of_warps) {
  const uint32_t num_warps = blockDim.x / kWarp;
  value = warp_sum(value);
  __syncthreads();  // the last sum has been read
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  const uint32_t lane = threadIdx.x % kWarp;
  return warp_sum(lane < num_warps ? of_warps[lane] : 0.0f);
}

// kValues: per thread, in registers.
template <class T, uint32_t kValues>
__global__ void __launch_bounds__(kMaxThreads)
    layer_norm_kernel(ResidualLayerNorm args, Rows rows) {
  SharedMemory shared;
  float* const of_warps = shared.take<float>(kMaxThreads / kWarp);
  const float share = 1.0f / static_cast<float>(args.hidden);
  for (uint32_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const uint32_t slot = rows.slots[row];
    const size_t first = size_t{row} * args.hidden;
    float values[kValues];
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kValues; ++i) {
      const uint32_t column = threadIdx.x + i * blockDim.x;
      values[i] = 0;
      if (column >= args.hidden) continue;
      values[i] = to_float(static_cast<const T*>(args.x)[first + column]);
      if (args.bias.base != nullptr) values[i] += slab_at<float>(args.bias, slot)[column];
      if (args.residual != nullptr)
        values[i] += to_float(static_cast<const T*>(args.residual)[first + column]);
      if (args.sum != nullptr) {  // normalise the sum as it is stored
        const T rounded = from_float<T>(values[i]);
        static_cast<T*>(args.sum)[first + column] = rounded;
        values[i] = to_float(rounded);
      }
      sum += values[i];
    }
    const float mean = block_sum(sum, of_warps) * share;
    float squares = 0;
#pragma unroll
    for (uint32_t i = 0; i < kValues; ++i)
      if (threadIdx.x + i * blockDim.x < args.hidden)
        squares += (values[i] - mean) * (values[i] - mean);
    const float scale = rsqrtf(block_sum(squares, of_warps) * share + args.epsilon);
#pragma unroll
    for (uint32_t i = 0; i < kValues; ++i) {
      const uint32_t column = threadIdx.x + i * blockDim.x;
      if (column >= args.hidden) continue;
      static_cast<T*>(args.out)[first + column] =
          from_float<T>((values[i] - mean) * scale * slab_at<float>(args.gamma, slot)[column] +
                        slab_at<float>(args.beta, slot)[column]);
    }
  }
}

}  // namespace

void thesis_bias_activation(const Launcher& launch, const BiasActivation& args, const Rows& rows) {
  with_activation(launch.activation(), [&]<class T>() {
    const auto run = [&]<uint32_t kWidth>() {
      launch(grid_of_thesis(args.width, rows.count, launch.processors()), bias_kernel<T, kWidth>,
             args, rows);
    };
    if (is_packed<T>(args.width))
      run.template operator()<Pack<T>::kWidth>();
    else
      run.template operator()<1>();
  });
}

void thesis_layer_norm(const Launcher& launch, const ResidualLayerNorm& args, const Rows& rows) {
  // The thesis's grid with two exceptions. block_sum() shuffles whole warps, so T is rounded up to
  // a multiple of 32; every model of the thesis's Table 5.1 has one. A row is one block's, because
  // its sum is: for H > 1024 the equation asks for more blocks than rows, which would have no row.
  Grid grid = grid_of_thesis(args.hidden, rows.count, launch.processors());
  grid.threads.x = div_up(grid.threads.x, kWarp) * kWarp;
  if (grid.blocks.x > rows.count) grid.blocks.x = rows.count;
  grid.shared_bytes = shared_bytes<float>(kMaxThreads / kWarp);
  with_activation(launch.activation(), [&]<class T>() {
    if (args.hidden <= kMaxThreads)
      launch(grid, layer_norm_kernel<T, 1>, args, rows);
    else
      launch(grid, layer_norm_kernel<T, kMaxRowWidth / kMaxThreads>, args, rows);
  });
}

}  // namespace itif::kernels::cuda
