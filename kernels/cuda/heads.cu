// The thesis's form of attention: rows to heads and back, a block a row, and softmax over scores in memory, a warp
// a row of scores.
#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// Where value `column` of a row stands by heads, in elements.
__device__ size_t by_heads(const PaddedSegment& segment, uint32_t row, uint32_t column,
                           uint32_t hidden, uint32_t head_size) {
  const uint32_t head = column / head_size;
  return size_t{segment.first_row} * hidden +
         (size_t{head} * segment.num_rows + (row - segment.first_row)) * head_size +
         column % head_size;
}

template <class T>
__global__ void split_heads_kernel(HeadPart part, uint32_t hidden, uint32_t head_size, Rows rows,
                                   const PaddedSegment* segments, const int32_t* segment_of_row) {
  const uint32_t row = blockIdx.x;
  if (segment_of_row[row] < 0) return;
  const PaddedSegment segment = segments[segment_of_row[row]];
  const T* x = static_cast<const T*>(part.x) + size_t{row} * hidden;
  const float* bias =
      part.bias.base == nullptr ? nullptr : slab_at<float>(part.bias, rows.slots[row]);
  T* out = static_cast<T*>(part.out);
  for (uint32_t i = threadIdx.x; i < hidden; i += kThreads)
    out[by_heads(segment, row, i, hidden, head_size)] =
        bias == nullptr ? x[i] : from_float<T>(to_float(x[i]) + bias[i]);
}

template <class T>
__global__ void merge_heads_kernel(MergeHeads args, const PaddedSegment* segments,
                                   const int32_t* segment_of_row) {
  const uint32_t row = blockIdx.x, hidden = args.num_heads * args.head_size;
  if (segment_of_row[row] < 0) return;
  const PaddedSegment segment = segments[segment_of_row[row]];
  const T* x = static_cast<const T*>(args.x);
  T* out = static_cast<T*>(args.out) + size_t{row} * hidden;
  for (uint32_t i = threadIdx.x; i < hidden; i += kThreads)
    out[i] = x[by_heads(segment, row, i, hidden, args.head_size)];
}

// Rows of scores of one segment: y, and within it a warp a row of any head.
template <class T>
__global__ void softmax_kernel(Softmax args, const PaddedSegment* segments) {
  const PaddedSegment segment = segments[blockIdx.y];
  const uint32_t row = my_row();
  if (row >= args.num_heads * segment.num_rows) return;
  T* x = static_cast<T*>(args.x) + segment.first_score + size_t{row} * segment.num_rows;
  float most = -INFINITY;
  for (uint32_t i = threadIdx.x; i < segment.num_tokens; i += kWarp)
    most = fmaxf(most, to_float(x[i]) * args.scale);
  most = warp_max(most);
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < segment.num_tokens; i += kWarp)
    sum += expf(to_float(x[i]) * args.scale - most);
  const float inverse = 1.0f / warp_sum(sum);
  for (uint32_t i = threadIdx.x; i < segment.num_rows; i += kWarp)
    x[i] = from_float<T>(i < segment.num_tokens ? expf(to_float(x[i]) * args.scale - most) * inverse
                                                : 0.0f);
}

}  // namespace

void split_heads(const Launcher& launch, const HeadPart& part, const SplitHeads& args,
                 const Rows& rows, const PaddedSegment* segments, const int32_t* segment_of_row) {
  with_activation(launch.activation(), [&]<class T>() {
    launch({.blocks = dim3(rows.count), .threads = dim3(kThreads)}, split_heads_kernel<T>, part,
           args.num_heads * args.head_size, args.head_size, rows, segments, segment_of_row);
  });
}

void merge_heads(const Launcher& launch, const MergeHeads& args, const PaddedSegment* segments,
                 const int32_t* segment_of_row, uint32_t num_rows) {
  with_activation(launch.activation(), [&]<class T>() {
    launch({.blocks = dim3(num_rows), .threads = dim3(kThreads)}, merge_heads_kernel<T>, args,
           segments, segment_of_row);
  });
}

void softmax(const Launcher& launch, const Softmax& args, const PaddedSegment* segments,
             uint32_t num_segments, uint32_t longest) {
  Grid grid = grid_of_rows(args.num_heads * longest);
  grid.blocks.y = num_segments;
  with_activation(launch.activation(),
                  [&]<class T>() { launch(grid, softmax_kernel<T>, args, segments); });
}

}  // namespace itif::kernels::cuda
