// Self-attention of the requests of all tenants in one launch, without padding: a block a tile of queries of one
// head of one segment, over that segment's keys and values, which go by in tiles, too; the softmax is corrected as
// larger scores appear (Dao et al., FlashAttention-2), so that no scores are kept in memory.
//
// Two forms: on tensor cores, of head sizes 32, 64 and 128 in 16 bits; and a plain one, a warp a query, for f32
// and all other head sizes.
//
// The one on tensor cores adds the bias of queries, keys and values. Of the queries as they come. The keys' adds the
// same to all scores of a query, which softmax does not see: it is left out. The weights of a query's values sum to
// one: what each value lacks the result lacks, and gets it in the end.
#include "kernels/cuda/attention_row.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/tensor_cores.h"

namespace itif::kernels::cuda {
namespace {

constexpr float kLog2E = 1.44269504f;

// ---- Plain ----

template <class T>
struct RowsOfSegment {
  const T* base;  // of row 0, of the head
  size_t stride;
  __device__ const T* operator()(uint32_t row) const { return base + row * stride; }
};

template <class T, uint32_t kPerLane>
__global__ void attention_plain_kernel(Attention args, const AttentionTile* tiles) {
  const AttentionTile tile = tiles[blockIdx.x];
  const uint32_t query = tile.first_query + threadIdx.y, head = blockIdx.y;
  if (threadIdx.y >= kPlainQueries || query >= tile.num_rows) return;
  const size_t hidden = size_t{args.num_heads} * args.head_size;
  const T* first = static_cast<const T*>(args.qkv) + size_t{tile.first_row} * 3 * hidden +
                   size_t{head} * args.head_size;
  T* out = static_cast<T*>(args.out) + size_t{tile.first_row + query} * hidden +
           size_t{head} * args.head_size;
  attend_row<T, kPerLane>(first + query * 3 * hidden, RowsOfSegment<T>{first + hidden, 3 * hidden},
                          RowsOfSegment<T>{first + 2 * hidden, 3 * hidden}, tile.num_rows,
                          args.head_size, args.scale, out);
}

// ---- On tensor cores ----

constexpr uint32_t kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr uint32_t kTile = kTensorQueries;  // queries of a block, keys of a step
static_assert(kTile == kWarps * 16);

// Rows of a tile in shared memory. Eight more values than a head keep the rows of a load apart in the banks.
template <uint32_t kHead>
constexpr uint32_t kRowValues = kHead + 8;
template <uint32_t kHead>
constexpr uint32_t kTileValues = kTile* kRowValues<kHead>;

// Brings rows [first, first + kTile) of a segment; those past its end are zeros.
template <uint32_t kHead, class T>
__device__ void bring_tile(T* to, const T* from, size_t stride, uint32_t first, uint32_t num_rows) {
  constexpr uint32_t kPacks = kHead / Pack<T>::kWidth;
  for (uint32_t i = threadIdx.x; i < kTile * kPacks; i += kThreads) {
    const uint32_t row = i / kPacks, pack = i % kPacks;
    T* target = to + row * kRowValues<kHead> + pack * Pack<T>::kWidth;
    if (first + row < num_rows)
      copy_async(target, from + (first + row) * stride + pack * Pack<T>::kWidth);
    else
      *reinterpret_cast<uint4*>(target) = make_uint4(0, 0, 0, 0);
  }
  commit_copies();
}

// Likewise with a bias, rounded as if it had been there in memory. There at the next barrier.
template <uint32_t kHead, class T>
__device__ void bring_biased_tile(T* to, const T* from, size_t stride, uint32_t first,
                                  uint32_t num_rows, const float* bias) {
  constexpr uint32_t kWidth = Pack<T>::kWidth, kPacks = kHead / kWidth;
  for (uint32_t i = threadIdx.x; i < kTile * kPacks; i += kThreads) {
    const uint32_t row = i / kPacks, pack = i % kPacks;
    Pack<T> values = {};
    if (first + row < num_rows) {
      values = pack_at(from + (first + row) * stride, pack);
      for (uint32_t v = 0; v < kWidth; ++v)
        values.values[v] = from_float<T>(to_float(values.values[v]) + bias[pack * kWidth + v]);
    }
    pack_at(to + row * kRowValues<kHead>, pack) = values;
  }
}

template <class T>
__device__ uint32_t pair_of(float first, float second) {
  struct alignas(4) Pair {
    T values[2];
  } const pair = {{from_float<T>(first), from_float<T>(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Over the four lanes that hold a row's columns.
__device__ inline float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

template <class T, uint32_t kHead>
__global__ void __launch_bounds__(kThreads)
    attention_kernel(Attention args, const AttentionTile* tiles, QkvBias bias) {
  constexpr uint32_t kSteps = kHead / 16;      // of a product over the head
  constexpr uint32_t kOutTiles = kHead / 8;    // of 8 columns
  constexpr uint32_t kScoreTiles = kTile / 8;  // of 8 keys
  constexpr uint32_t kStride = kRowValues<kHead>;
  SharedMemory shared;
  T* const queries = shared.take<T>(kTileValues<kHead>);
  T* const keys = shared.take<T>(kTileValues<kHead>);
  T* const values = shared.take<T>(kTileValues<kHead>);

  const AttentionTile tile = tiles[blockIdx.x];
  if (tile.num_rows == 0) return;
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const size_t hidden = size_t{args.num_heads} * kHead;
  const T* const first = static_cast<const T*>(args.qkv) + size_t{tile.first_row} * 3 * hidden +
                         size_t{blockIdx.y} * kHead;
  const float* const of_queries =
      bias.slab.base == nullptr
          ? nullptr
          : slab_at<float>(bias.slab, bias.slots[tile.first_row]) + blockIdx.y * kHead;
  if (of_queries == nullptr)
    bring_tile<kHead>(queries, first, 3 * hidden, tile.first_query, tile.num_rows);
  bring_tile<kHead>(keys, first + hidden, 3 * hidden, 0, tile.num_rows);
  if (of_queries != nullptr)
    bring_biased_tile<kHead>(queries, first, 3 * hidden, tile.first_query, tile.num_rows,
                             of_queries);

  FragmentA q[kSteps];
  Sums out[kOutTiles] = {};
  float most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};  // of rows g and g + 8
  const float scale = args.scale * kLog2E;

  for (uint32_t key = 0; key < tile.num_rows; key += kTile) {
    bring_tile<kHead>(values, first + 2 * hidden, 3 * hidden, key, tile.num_rows);
    wait_for_copies<1>();  // the keys, and at first the queries
    __syncthreads();
    if (key == 0)
      for (uint32_t step = 0; step < kSteps; ++step) {
        const T* row = queries + (warp * 16 + lane % 16) * kStride + step * 16 + lane / 16 * 8;
        const FourTiles four = load_tiles(row);
        for (uint32_t i = 0; i < 4; ++i) q[step].parts[i] = four.parts[i];
      }

    // Scores of 16 queries and kTile keys. Two tiles of keys, of both halves of a step, a load.
    Sums scores[kScoreTiles] = {};
#pragma unroll
    for (uint32_t pair = 0; pair < kScoreTiles / 2; ++pair)
#pragma unroll
      for (uint32_t step = 0; step < kSteps; ++step) {
        const T* row =
            keys + (pair * 16 + lane / 16 * 8 + lane % 8) * kStride + step * 16 + lane / 8 % 2 * 8;
        const FourTiles four = load_tiles(row);
        multiply_add(scores[2 * pair], q[step], {{four.parts[0], four.parts[1]}}, T{});
        multiply_add(scores[2 * pair + 1], q[step], {{four.parts[2], four.parts[3]}}, T{});
      }
    __syncthreads();
    // The next keys, while these scores become weights.
    const bool is_last = key + kTile >= tile.num_rows;
    if (!is_last) bring_tile<kHead>(keys, first + hidden, 3 * hidden, key + kTile, tile.num_rows);

    for (uint32_t half = 0; half < 2; ++half) {
      float largest = most[half];
      for (uint32_t i = 0; i < kScoreTiles; ++i)
        for (uint32_t c = 0; c < 2; ++c) {
          float& score = scores[i].values[2 * half + c];
          const uint32_t column = key + i * 8 + lane % 4 * 2 + c;
          score = column < tile.num_rows ? score * scale : -INFINITY;
          largest = fmaxf(largest, score);
        }
      largest = quad_max(largest);  // finite: a tile has a key
      const float correction = exp2f(most[half] - largest);
      most[half] = largest;
      float sum = 0;
      for (uint32_t i = 0; i < kScoreTiles; ++i)
        for (uint32_t c = 0; c < 2; ++c) {
          float& score = scores[i].values[2 * half + c];
          score = exp2f(score - largest);
          sum += score;
        }
      total[half] = total[half] * correction + sum;
      for (uint32_t i = 0; i < kOutTiles; ++i)
        for (uint32_t c = 0; c < 2; ++c) out[i].values[2 * half + c] *= correction;
    }

    if (is_last)
      wait_for_copies<0>();
    else
      wait_for_copies<1>();  // the values; the next keys may be under way
    __syncthreads();
    // Weights as they lie in the sums of two tiles are a fragment of [16 queries, 16 keys].
#pragma unroll
    for (uint32_t step = 0; step < kTile / 16; ++step) {
      const Sums &left = scores[2 * step], &right = scores[2 * step + 1];
      const FragmentA weights = {{pair_of<T>(left.values[0], left.values[1]),
                                  pair_of<T>(left.values[2], left.values[3]),
                                  pair_of<T>(right.values[0], right.values[1]),
                                  pair_of<T>(right.values[2], right.values[3])}};
#pragma unroll
      for (uint32_t pair = 0; pair < kOutTiles / 2; ++pair) {
        const T* row = values + (step * 16 + lane % 16) * kStride + pair * 16 + lane / 16 * 8;
        const FourTiles four = load_tiles_transposed(row);
        multiply_add(out[2 * pair], weights, {{four.parts[0], four.parts[1]}}, T{});
        multiply_add(out[2 * pair + 1], weights, {{four.parts[2], four.parts[3]}}, T{});
      }
    }
    __syncthreads();  // before the values are written over
  }

  T* const to =
      static_cast<T*>(args.out) + size_t{tile.first_row} * hidden + size_t{blockIdx.y} * kHead;
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t query = tile.first_query + warp * 16 + lane / 4 + half * 8;
    const float inverse = 1.0f / quad_sum(total[half]);
    if (query >= tile.num_rows) continue;
    for (uint32_t i = 0; i < kOutTiles; ++i) {
      const uint32_t column = i * 8 + lane % 4 * 2;
      float lacking[2] = {0, 0};
      if (of_queries != nullptr)
        for (uint32_t c = 0; c < 2; ++c) lacking[c] = of_queries[2 * hidden + column + c];
      *reinterpret_cast<uint32_t*>(to + query * hidden + column) =
          pair_of<T>(out[i].values[2 * half] * inverse + lacking[0],
                     out[i].values[2 * half + 1] * inverse + lacking[1]);
    }
  }
}

template <class T, uint32_t kHead>
constexpr size_t kTensorBytes = 3 * shared_bytes<T>(kTileValues<kHead>);

template <class T, uint32_t kHead>
void launch_tensor(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
                   uint32_t num_tiles, const QkvBias& bias) {
  launch({.blocks = dim3(num_tiles, args.num_heads),
          .threads = dim3(kThreads),
          .shared_bytes = kTensorBytes<T, kHead>},
         attention_kernel<T, kHead>, args, tiles, bias);
}

template <class T>
cudaError_t allow_tensor_bytes() {
  static_assert(kTensorBytes<T, 64> <= kSharedUnlessAllowed);
  return cudaFuncSetAttribute(attention_kernel<T, 128>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(kTensorBytes<T, 128>));
}

template <class T>
void launch_plain(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
                  uint32_t num_tiles) {
  const Grid grid{.blocks = dim3(num_tiles, args.num_heads), .threads = dim3(kWarp, kPlainQueries)};
  with_values_per_lane(args.head_size, [&]<uint32_t kPerLane>() {
    launch(grid, attention_plain_kernel<T, kPerLane>, args, tiles);
  });
}

}  // namespace

bool attention_adds_bias(DType activation, uint32_t head_size) {
  return activation != DType::kF32 && (head_size == 32 || head_size == 64 || head_size == 128);
}
uint32_t attention_tile_queries(DType activation, uint32_t head_size) {
  return attention_adds_bias(activation, head_size) ? kTensorQueries : kPlainQueries;
}

cudaError_t allow_shared_memory() {
  const cudaError_t error = allow_tensor_bytes<Bf16>();
  return error == cudaSuccess ? allow_tensor_bytes<Half>() : error;
}

void attention(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
               uint32_t num_tiles, const QkvBias& bias) {
  const bool is_plain =
      attention_tile_queries(launch.activation(), args.head_size) == kPlainQueries;
  with_activation(launch.activation(), [&]<class T>() {
    if constexpr (sizeof(T) == 2) {
      if (!is_plain) {
        if (args.head_size == 32) return launch_tensor<T, 32>(launch, args, tiles, num_tiles, bias);
        if (args.head_size == 64) return launch_tensor<T, 64>(launch, args, tiles, num_tiles, bias);
        return launch_tensor<T, 128>(launch, args, tiles, num_tiles, bias);
      }
    }
    launch_plain<T>(launch, args, tiles, num_tiles);
  });
}

}  // namespace itif::kernels::cuda
