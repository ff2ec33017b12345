// Attention of the thesis fusion mode: rows to heads and back, and softmax over scores in memory.
// Launches have the thesis's geometry (thesis_grid.h).
#include <algorithm>

#include "kernels/cuda/approximate.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/thesis_grid.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kMaxGridHeight = 65'535;
constexpr uint32_t kRowsAtOnce = 2;  // in flight per thread

// Returns the offset of value `column` of a row in the layout by heads, in elements.
__device__ size_t by_heads(const PaddedSegment& segment, uint32_t row, uint32_t column,
                           uint32_t hidden, uint32_t head_size) {
  const uint32_t head = column / head_size;
  return size_t{segment.first_row} * hidden +
         (size_t{head} * segment.num_rows + (row - segment.first_row)) * head_size +
         (column - head * head_size);
}

// Calls body(first, step, column, of_row) for a thread's rows, two at a time: first and first +
// step. of_row holds their segments; -1: none.
template <uint32_t kWidth, class Body>
__device__ void for_each_turn(uint32_t hidden, uint32_t num_rows, const int32_t* segment_of_row,
                              const Body& body) {
  const GridStride stride = my_grid_stride<kWidth>(hidden, num_rows);
  const uint32_t step = stride.row_step;
  for (uint32_t column = stride.column; column < stride.end_column; column += stride.column_step)
    for (uint32_t first = stride.first_row; first < num_rows; first += step * kRowsAtOnce) {
      int32_t of_row[kRowsAtOnce];
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r)
        of_row[r] = first + r * step < num_rows ? segment_of_row[first + r * step] : -1;
      body(first, step, column, of_row);
    }
}

template <class T, uint32_t kWidth>
__global__ void __launch_bounds__(kMaxThreads, kMinResidentBlocks)
    split_heads_kernel(HeadPart part, uint32_t hidden, uint32_t head_size, Rows rows,
                       const PaddedSegment* segments, const int32_t* segment_of_row) {
  for_each_turn<kWidth>(
      hidden, rows.count, segment_of_row,
      [&](uint32_t first, uint32_t step, uint32_t column, const int32_t(&of_row)[kRowsAtOnce]) {
        const T* x = static_cast<const T*>(part.x) + column;
        Values<T, kWidth> values[kRowsAtOnce];
#pragma unroll
        for (uint32_t r = 0; r < kRowsAtOnce; ++r)
          values[r] = values_at<kWidth>(x + size_t{min(first + r * step, rows.count - 1)} * hidden);
#pragma unroll
        for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
          const uint32_t row = first + r * step;
          if (of_row[r] < 0) continue;
          Values<float, kWidth> bias = {};
          if (part.bias.base != nullptr)
            bias = values_at<kWidth>(slab_at<float>(part.bias, rows.slots[row]) + column);
          Values<T, kWidth> sum;
#pragma unroll
          for (uint32_t i = 0; i < kWidth; ++i)
            sum.values[i] = from_float<T>(to_float(values[r].values[i]) + bias.values[i]);
          store_at(static_cast<T*>(part.out) +
                       by_heads(segments[of_row[r]], row, column, hidden, head_size),
                   sum);
        }
      });
}

template <class T, uint32_t kWidth>
__global__ void __launch_bounds__(kMaxThreads, kMinResidentBlocks)
    merge_heads_kernel(MergeHeads args, uint32_t num_rows, const PaddedSegment* segments,
                       const int32_t* segment_of_row) {
  const uint32_t hidden = args.num_heads * args.head_size;
  for_each_turn<kWidth>(
      hidden, num_rows, segment_of_row,
      [&](uint32_t first, uint32_t step, uint32_t column, const int32_t(&of_row)[kRowsAtOnce]) {
        T* out = static_cast<T*>(args.out) + size_t{first} * hidden + column;
        Values<T, kWidth> values[kRowsAtOnce];
#pragma unroll
        for (uint32_t r = 0; r < kRowsAtOnce; ++r)
          if (of_row[r] >= 0)
            values[r] = values_at<kWidth>(
                static_cast<const T*>(args.x) +
                by_heads(segments[of_row[r]], first + r * step, column, hidden, args.head_size));
#pragma unroll
        for (uint32_t r = 0; r < kRowsAtOnce; ++r)
          if (of_row[r] >= 0) store_at(out + size_t{r * step} * hidden, values[r]);
      });
}

// Softmax of a row of scores by kLanes neighbouring lanes, each with kPacks packs of kWidth scores
// in registers. REQUIRES: called by whole warps. Rows past the last have no tokens and no columns.
template <class T, uint32_t kWidth, uint32_t kLanes, uint32_t kPacks>
__device__ void softmax_of_row(T* row, uint32_t num_tokens, uint32_t num_columns, float scale) {
  float values[kPacks][kWidth];
  const uint32_t lane = threadIdx.x % kLanes;
  float most = -INFINITY;
#pragma unroll
  for (uint32_t p = 0; p < kPacks; ++p) {
    const uint32_t first = (lane + p * kLanes) * kWidth;
    Values<T, kWidth> pack = {};
    if (first < num_tokens) pack = values_at<kWidth>(row + first);
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) {
      values[p][i] = first + i < num_tokens ? to_float(pack.values[i]) * scale : -INFINITY;
      most = fmaxf(most, values[p][i]);
    }
  }
  most = lanes_max<kLanes>(most);
  if (num_tokens == 0) most = 0;  // all weights become 0
  float sum = 0;
#pragma unroll
  for (uint32_t p = 0; p < kPacks; ++p)
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      sum += values[p][i] = exp2_approximately(values[p][i] - most);
  sum = lanes_sum<kLanes>(sum);
  const float inverse = num_tokens == 0 ? 0.0f : 1.0f / sum;
#pragma unroll
  for (uint32_t p = 0; p < kPacks; ++p) {
    const uint32_t first = (lane + p * kLanes) * kWidth;
    Values<T, kWidth> pack;
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) pack.values[i] = from_float<T>(values[p][i] * inverse);
    if (first < num_columns) store_at(row + first, pack);
  }
}

// Softmax of a longer row, in three passes over memory.
template <class T>
__device__ void softmax_of_long_row(T* row, uint32_t num_tokens, uint32_t num_columns,
                                    float scale) {
  float most = -INFINITY;
  for (uint32_t i = threadIdx.x; i < num_tokens; i += kWarp)
    most = fmaxf(most, to_float(row[i]) * scale);
  most = warp_max(most);
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < num_tokens; i += kWarp)
    sum += exp2_approximately(to_float(row[i]) * scale - most);
  const float inverse = 1.0f / warp_sum(sum);
  for (uint32_t i = threadIdx.x; i < num_columns; i += kWarp)
    row[i] = from_float<T>(
        i < num_tokens ? exp2_approximately(to_float(row[i]) * scale - most) * inverse : 0.0f);
}

// Threads of a block for which a thread's registers hold its scores: 1,024 leave it 64 registers.
constexpr uint32_t max_softmax_threads(uint32_t packs) {
  return packs > 2 ? kMaxThreads / 2 : kMaxThreads;
}

// Normalises every gridDim.y-th part of a segment's rows of scores, of all its heads.
template <class T, uint32_t kLanes, uint32_t kPacks>
__device__ void softmax_of_segment(const Softmax& args, const PaddedSegment& segment) {
  constexpr uint32_t kWide = Pack<T>::kWidth;
  const uint32_t rows_at_once = blockDim.y * (kWarp / kLanes);
  T* x = static_cast<T*>(args.x) + segment.first_score;
  const float scale = args.scale * 1.44269504f;  // log2(e)
  const bool is_packed = segment.num_rows % kWide == 0 && segment.first_score % kWide == 0;
  const uint32_t count = args.num_heads * segment.num_rows;
  const uint32_t of_warp = threadIdx.y * (kWarp / kLanes);
  for (uint32_t first = blockIdx.y * rows_at_once + of_warp; first < count;
       first += gridDim.y * rows_at_once) {
    const uint32_t row = first + threadIdx.x / kLanes;
    T* scores = x + size_t{row} * segment.num_rows;
    const uint32_t tokens = row < count ? segment.num_tokens : 0;
    const uint32_t columns = row < count ? segment.num_rows : 0;
    if constexpr (kPacks == 0)
      softmax_of_long_row(scores, tokens, columns, scale);
    else if (is_packed)
      softmax_of_row<T, kWide, kLanes, kPacks>(scores, tokens, columns, scale);
    else
      softmax_of_row<T, 1, kLanes, kPacks * kWide>(scores, tokens, columns, scale);
  }
}

// Grid: x iterates over the segments (the dimension with the largest limit), y over the rows of
// scores of each.
template <class T, uint32_t kLanes, uint32_t kPacks>
__global__ void __launch_bounds__(max_softmax_threads(kPacks))
    softmax_kernel(Softmax args, const PaddedSegment* segments, uint32_t num_segments) {
  for (uint32_t s = blockIdx.x; s < num_segments; s += gridDim.x)
    softmax_of_segment<T, kLanes, kPacks>(args, segments[s]);
}

// Calls body.operator()<kLanes, kPacks>() with the smallest product that holds `longest` scores in
// registers, or kPacks = 0 if none does.
template <class T, class Body>
void with_scores_of(uint32_t longest, const Body& body) {
  // Values of a lane, so that several short rows share a warp.
  constexpr uint32_t kPair = 2 * Pack<T>::kWidth;
  if (longest <= 4 * kPair) return body.template operator()<4, 2>();
  if (longest <= 8 * kPair) return body.template operator()<8, 2>();
  if (longest <= 16 * kPair) return body.template operator()<16, 2>();
  if (longest <= 32 * kPair) return body.template operator()<32, 2>();
  if (longest <= 64 * kPair) return body.template operator()<32, 4>();
  if (longest <= 128 * kPair) return body.template operator()<32, 8>();
  return body.template operator()<32, 0>();
}

void split_part(const Launcher& launch, const HeadPart& part, const SplitHeads& args,
                const Rows& rows, const PaddedSegment* segments, const int32_t* segment_of_row) {
  const uint32_t hidden = args.num_heads * args.head_size;
  with_activation(launch.activation(), [&]<class T>() {
    const auto run = [&]<uint32_t kWidth>() {
      launch(grid_of_thesis(hidden, rows.count, launch.processors()), split_heads_kernel<T, kWidth>,
             part, hidden, args.head_size, rows, segments, segment_of_row);
    };
    if (is_packed<T>(args.head_size))
      run.template operator()<Pack<T>::kWidth>();
    else
      run.template operator()<1>();
  });
}

}  // namespace

void run(const SplitHeads& args, Plan& plan) {
  const Rows rows = plan.rows(args.ranges);
  const PaddedSegment* segments = plan.put(args.segments);
  const int32_t* segment_of_row = plan.segment_of_row(args.segments, rows.count);
  if (segment_of_row == nullptr) return;
  for (const HeadPart& part : args.parts)
    split_part(plan.launcher(part, rows.count, rows.slots, segments, segment_of_row), part, args,
               rows, segments, segment_of_row);
}

void run(const MergeHeads& args, Plan& plan) {
  if (args.segments.empty()) return;
  const uint32_t num_rows = args.segments.back().first_row + args.segments.back().num_rows;
  const PaddedSegment* segments = plan.put(args.segments);
  const int32_t* segment_of_row = plan.segment_of_row(args.segments, num_rows);
  if (segment_of_row == nullptr) return;
  const Launcher& launch = plan.launcher(segments, segment_of_row, num_rows);
  const uint32_t hidden = args.num_heads * args.head_size;
  with_activation(launch.activation(), [&]<class T>() {
    const auto run = [&]<uint32_t kWidth>() {
      launch(grid_of_thesis(hidden, num_rows, launch.processors()), merge_heads_kernel<T, kWidth>,
             args, num_rows, segments, segment_of_row);
    };
    if (is_packed<T>(args.head_size))
      run.template operator()<Pack<T>::kWidth>();
    else
      run.template operator()<1>();
  });
}

void run(const Softmax& args, Plan& plan) {
  const PaddedSegment* segments = plan.put(args.segments);
  const uint32_t num_segments = count(args.segments);
  uint32_t longest = 0;
  uint64_t num_scores = 0;
  for (const PaddedSegment& segment : args.segments) {
    longest = std::max(longest, segment.num_rows);
    num_scores += uint64_t{args.num_heads} * segment.num_rows * segment.num_rows;
  }
  const Launcher& launch = plan.launcher(num_scores, segments, num_segments, longest);
  if (num_segments == 0) return;
  with_activation(launch.activation(), [&]<class T>() {
    with_scores_of<T>(longest, [&]<uint32_t kLanes, uint32_t kPacks>() {
      // The thesis's grid with three exceptions. Lanes shuffle, so T is rounded up to whole warps.
      // It is at most 512 for rows whose scores need more than the 64 registers that 1,024 threads
      // leave each. B is rounded down to a multiple of the segments that run at a time.
      const uint32_t threads =
          std::min(threads_of_thesis(args.num_heads * args.head_size), max_softmax_threads(kPacks));
      const uint32_t blocks = blocks_of_thesis(threads, num_scores, launch.processors());
      const uint32_t at_once = std::min(num_segments, blocks);
      if (at_once == 0) return;
      launch({.blocks = dim3(at_once, std::min(blocks / at_once, kMaxGridHeight)),
              .threads = dim3(kWarp, div_up(threads, kWarp))},
             softmax_kernel<T, kLanes, kPacks>, args, segments, num_segments);
    });
  });
}

}  // namespace itif::kernels::cuda
