// Pooling as sentence-transformers defines it, in f32: a block a segment, its threads along the columns.
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarp;

template <class T>
__device__ float pooled(const PoolSegments& args, const SegmentRows& segment, uint32_t column) {
  const T* x = static_cast<const T*>(args.x) + size_t{segment.first_row} * args.hidden + column;
  const uint32_t rows = segment.num_rows;
  const auto at = [&](uint32_t row) { return to_float(x[size_t{row} * args.hidden]); };
  if (rows == 0) return 0;
  if (args.pooling == Pooling::kFirst) return at(0);
  if (args.pooling == Pooling::kLast) return at(rows - 1);
  float value = at(0);
  if (args.pooling == Pooling::kMax) {
    for (uint32_t row = 1; row < rows; ++row) value = fmaxf(value, at(row));
    return value;
  }
  for (uint32_t row = 1; row < rows; ++row) value += at(row);
  const auto count = static_cast<float>(rows);
  return value / (args.pooling == Pooling::kMean ? count : sqrtf(count));
}

template <class T>
__global__ void pool_segments_kernel(PoolSegments args, const SegmentRows* segments,
                                     const uint32_t* chosen) {
  SharedMemory shared;
  float* squares_of = shared.take<float>(kWarps);
  const SegmentRows segment = segments[chosen[blockIdx.x]];
  float* out = args.out + size_t{blockIdx.x} * args.hidden;
  float squares = 0;
  for (uint32_t column = threadIdx.x; column < args.hidden; column += kThreads) {
    const float value = pooled<T>(args, segment, column);
    out[column] = value;
    squares += value * value;
  }
  if (!args.normalize) return;
  squares = warp_sum(squares);
  if (threadIdx.x % kWarp == 0) squares_of[threadIdx.x / kWarp] = squares;
  __syncthreads();
  float sum = 0;
  for (uint32_t warp = 0; warp < kWarps; ++warp) sum += squares_of[warp];
  // As torch.nn.functional.normalize: a zero vector stays zero.
  const float scale = 1.0f / fmaxf(sqrtf(sum), 1e-12f);
  for (uint32_t column = threadIdx.x; column < args.hidden; column += kThreads)
    out[column] *= scale;
}

}  // namespace

void pool_segments(const Launcher& launch, const PoolSegments& args, const SegmentRows* segments,
                   const uint32_t* chosen, uint32_t num_chosen) {
  with_activation(launch.activation(), [&]<class T>() {
    launch({.blocks = dim3(num_chosen),
            .threads = dim3(kThreads),
            .shared_bytes = shared_bytes<float>(kWarps)},
           pool_segments_kernel<T>, args, segments, chosen);
  });
}

}  // namespace itif::kernels::cuda
