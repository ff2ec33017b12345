// Pooling as sentence-transformers defines it, in f32. A block handles one segment and as many
// columns as a warp's lanes have packs, or all columns if they are scaled to unit length. Its warps
// share the rows and merge their results in shared memory.
#include "kernels/cuda/part.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kWarps = 16;
constexpr uint32_t kThreads = kWarps * kWarp;

template <uint32_t kWidth>
constexpr uint32_t kBandColumns = kWarp* kWidth;

__device__ inline float joined(bool is_max, float a, float b) {
  return is_max ? fmaxf(a, b) : a + b;
}

// Pools a lane's columns of every kWarps-th row, from the warp's own on.
template <bool kIsMax, class T, uint32_t kWidth>
__device__ void pool_rows(const T* x, size_t stride, uint32_t num_rows, float (&values)[kWidth]) {
#pragma unroll 4
  for (uint32_t row = threadIdx.x / kWarp; row < num_rows; row += kWarps) {
    const auto part = load_part<kWidth>(x + row * stride);
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      values[i] = joined(kIsMax, values[i], to_float(part.values[i]));
  }
}

template <class T, uint32_t kWidth>
__global__ void __launch_bounds__(kThreads)
    pool_segments_kernel(PoolSegments args, const SegmentRows* segments, const uint32_t* chosen) {
  constexpr uint32_t kColumns = kBandColumns<kWidth>;
  SharedMemory shared;
  float* of_warps = shared.take<float>(kWarps * kColumns);
  float* squares_of = shared.take<float>(kWarps);
  const SegmentRows segment = segments[chosen[blockIdx.x]];
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const bool is_max = args.pooling == Pooling::kMax;
  uint32_t first_row = segment.first_row, num_rows = segment.num_rows;
  if (num_rows > 0 && (args.pooling == Pooling::kFirst || args.pooling == Pooling::kLast)) {
    if (args.pooling == Pooling::kLast) first_row += num_rows - 1;
    num_rows = 1;
  }
  const T* x = static_cast<const T*>(args.x) + size_t{first_row} * args.hidden;
  float* out = args.out + size_t{blockIdx.x} * args.hidden;
  float divisor = 1;
  if (num_rows > 0 && args.pooling == Pooling::kMean) divisor = static_cast<float>(num_rows);
  if (num_rows > 0 && args.pooling == Pooling::kMeanSqrtLength)
    divisor = sqrtf(static_cast<float>(num_rows));

  float squares = 0;
  for (uint32_t band = blockIdx.y * kColumns; band < args.hidden; band += gridDim.y * kColumns) {
    const uint32_t first = band + lane * kWidth;
    // A maximum starts at NaN: fmaxf() drops it unless all values are NaN.
    const float start = is_max && num_rows > 0 ? NAN : 0;
    float values[kWidth];
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) values[i] = start;
    if (first < args.hidden) {
      if (is_max)
        pool_rows<true>(x + first, args.hidden, num_rows, values);
      else
        pool_rows<false>(x + first, args.hidden, num_rows, values);
    }
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) of_warps[warp * kColumns + lane * kWidth + i] = values[i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kColumns && band + i < args.hidden; i += kThreads) {
      float value = of_warps[i];
      // If there are fewer rows than warps, the other warps have no result.
      for (uint32_t other = 1; other < min(kWarps, num_rows); ++other)
        value = joined(is_max, value, of_warps[other * kColumns + i]);
      value /= divisor;
      out[band + i] = value;
      squares += value * value;
    }
    __syncthreads();  // before the next columns overwrite them
  }
  if (!args.normalize) return;
  squares = warp_sum(squares);
  if (lane == 0) squares_of[warp] = squares;
  __syncthreads();
  float sum = 0;
  for (uint32_t other = 0; other < kWarps; ++other) sum += squares_of[other];
  // As torch.nn.functional.normalize: a zero vector stays zero.
  const float scale = 1.0f / fmaxf(sqrtf(sum), 1e-12f);
  for (uint32_t band = 0; band < args.hidden; band += kColumns)
    for (uint32_t i = threadIdx.x; i < kColumns && band + i < args.hidden; i += kThreads)
      out[band + i] *= scale;
}

template <class T, uint32_t kWidth>
void launch_of_width(const Launcher& launch, const PoolSegments& args, const SegmentRows* segments,
                     const uint32_t* chosen, uint32_t num_chosen) {
  const uint32_t bands = args.normalize ? 1 : div_up(args.hidden, kBandColumns<kWidth>);
  launch({.blocks = dim3(num_chosen, bands),
          .threads = dim3(kThreads),
          .shared_bytes =
              shared_bytes<float>(kWarps * kBandColumns<kWidth>) + shared_bytes<float>(kWarps)},
         pool_segments_kernel<T, kWidth>, args, segments, chosen);
}

}  // namespace

void run(const PoolSegments& args, Plan& plan) {
  const SegmentRows* segments = plan.put(args.segments);
  const uint32_t* chosen = plan.put(args.chosen);
  const uint32_t num_chosen = count(args.chosen);
  const Launcher& launch = plan.launcher(segments, chosen, num_chosen);
  with_activation(launch.activation(), [&]<class T>() {
    constexpr uint32_t kWide = Pack<T>::kWidth;
    if (is_packed<T>(args.hidden))
      launch_of_width<T, kWide>(launch, args, segments, chosen, num_chosen);
    else
      launch_of_width<T, 1>(launch, args, segments, chosen, num_chosen);
  });
}

}  // namespace itif::kernels::cuda
