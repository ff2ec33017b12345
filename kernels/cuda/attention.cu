// Self-attention of the requests of all tenants in one launch, without padding. A block computes a
// tile of queries of one head of one segment, over that segment's keys and values, also in tiles.
// The softmax is rescaled as larger scores appear (Dao et al., FlashAttention-2), so that no scores
// are kept in memory. With kIsMasked, a tile's rows are those of a score matrix that several
// segments share, and each query's scores outside its own segment are masked.
//
// There are two kernels. One uses tensor cores, for 16-bit types and head sizes that are multiples
// of 16 up to 128. The plain one, a warp per query, takes f32 and all other head sizes.
//
// The tensor-core kernel adds the bias of queries, keys and values. Queries get theirs when they
// are loaded. The keys' bias is omitted: it adds the same to all scores of a query, which cancels
// in the softmax. The values' bias is added to the result, as the weights of a query sum to one.
#include "kernels/cuda/approximate.h"
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

template <class T, uint32_t kPerLane, bool kIsMasked>
__global__ void attention_plain_kernel(Attention args, const AttentionTile* tiles,
                                       const KeyRange* keys_of) {
  const AttentionTile tile = tiles[blockIdx.x];
  const uint32_t query = tile.first_query + threadIdx.y, head = blockIdx.y;
  if (threadIdx.y >= kPlainQueries || query >= tile.num_rows) return;
  const size_t hidden = size_t{args.num_heads} * args.head_size;
  const T* first = static_cast<const T*>(args.qkv) + size_t{tile.first_row} * 3 * hidden +
                   size_t{head} * args.head_size;
  T* out = static_cast<T*>(args.out) + size_t{tile.first_row + query} * hidden +
           size_t{head} * args.head_size;
  KeyRange allowed;
  if constexpr (kIsMasked) {
    allowed = keys_of[tile.first_row + query];
    if (allowed.begin == allowed.end) return;  // padding
  }
  attend_row<T, kPerLane, kIsMasked>(first + query * 3 * hidden,
                                     RowsOfSegment<T>{first + hidden, 3 * hidden},
                                     RowsOfSegment<T>{first + 2 * hidden, 3 * hidden},
                                     tile.num_rows, args.head_size, args.scale, out, allowed);
}

// ---- On tensor cores ----

constexpr uint32_t kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr uint32_t kTile = kTensorQueries;  // queries per block, keys per step
constexpr uint32_t kWarpQueries = kTile / kWarps;
static_assert(kWarpQueries == 16);
// The largest head size, and the common divisor of all.
constexpr uint32_t kTensorHead = 128, kTensorHeadStep = 16;

// Resident blocks per multiprocessor, which bounds the registers of a thread.
template <uint32_t kHead>
constexpr uint32_t kBlocks = kHead <= 32   ? 5
                             : kHead <= 64 ? 4
                                           : 3;
// Values from a row of a tile to the next in shared memory. The eight extra values avoid bank
// conflicts.
template <uint32_t kHead>
constexpr uint32_t kRowValues = kHead + 8;
template <uint32_t kHead>
constexpr uint32_t kTileValues = kTile* kRowValues<kHead>;

// Copies tiles of kTile rows. Lane l copies packs l, l + 32, … of its warp's 16 rows, so that each
// warp copies its own queries.
template <class T, uint32_t kHead>
class TileCopy {
 public:
  // `stride`: elements from a row to the next in the source.
  __device__ explicit TileCopy(uint32_t stride) : stride_(stride) {}

  // Returns the address of the lane's first pack in the tile that begins at `tile`.
  __device__ const T* mine(const T* tile) const {
    return tile + size_t{first_row()} * stride_ + first_pack() * kWidth;
  }
  // Starts copying the tile of mine(). Rows from num_rows on become zeros, whatever the source
  // holds there.
  __device__ void bring(T* tile, const T* mine, int num_rows) const {
    T* const to = tile + first_row() * kRowValues<kHead> + first_pack() * kWidth;
    const int rows_left = num_rows - static_cast<int>(first_row());
#pragma unroll
    for (uint32_t n = 0; n < kWarpQueries * kPacks / kWarp; ++n) {
      // Offsets are constants where possible: this runs twice per step.
      constexpr uint32_t kToNext = kRowValues<kHead> - kHead;
      const uint32_t rows = n * kWarp / kPacks, values = n * kWarp % kPacks * kWidth;
      const bool is_next_row = first_pack() * kWidth + values >= kHead;
      copy_async(to + rows * kRowValues<kHead> + values + (is_next_row ? kToNext : 0),
                 mine + (rows * stride_ + values + (is_next_row ? stride_ - kHead : 0)),
                 static_cast<int>(rows + is_next_row) < rows_left ? 16 : 0);
    }
    commit_copies();
  }
  // Makes the values finite that this thread copied. REQUIRES: it has waited for the copies.
  __device__ void make_finite(T* tile) const {
    for (uint32_t n = 0; n < kWarpQueries * kPacks / kWarp; ++n) {
      const uint32_t pack = first_pack() + n * kWarp;
      T* const row = tile + (first_row() + pack / kPacks) * kRowValues<kHead>;
      for (T& value : pack_at(row, pack % kPacks).values) value = finite(value);
    }
  }

 private:
  static constexpr uint32_t kWidth = Pack<T>::kWidth, kPacks = kHead / kWidth;
  static_assert(kWarpQueries * kPacks % kWarp == 0);

  __device__ static uint32_t first_row() {
    return threadIdx.x / kWarp * kWarpQueries + threadIdx.x % kWarp / kPacks;
  }
  __device__ static uint32_t first_pack() {
    return threadIdx.x % kWarp % kPacks;
  }

  uint32_t stride_;
};

template <class T>
__device__ uint32_t pair_of(float first, float second) {
  struct alignas(4) Pair {
    T values[2];
  } const pair = {{from_float<T>(first), from_float<T>(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// Rounds as if the biased values had been stored.
template <class T>
__device__ uint32_t biased_pair(uint32_t pair, float2 bias) {
  struct alignas(4) Pair {
    T values[2];
  };
  const Pair& elements = reinterpret_cast<const Pair&>(pair);
  return pair_of<T>(to_float(elements.values[0]) + bias.x, to_float(elements.values[1]) + bias.y);
}

// Reduces over the four lanes that hold a row's columns.
__device__ inline float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

template <class T, uint32_t kHead, bool kIsMasked>
__global__ void __launch_bounds__(kThreads, kBlocks<kHead>)
    attention_kernel(Attention args, const AttentionTile* tiles, Slab bias,
                     const KeyRange* keys_of) {
  constexpr uint32_t kSteps = kHead / 16;      // of a product over the head
  constexpr uint32_t kOutTiles = kHead / 8;    // of 8 columns
  constexpr uint32_t kScoreTiles = kTile / 8;  // of 8 keys
  constexpr uint32_t kStride = kRowValues<kHead>;
  SharedMemory shared;
  T* const keys = shared.take<T>(kTileValues<kHead>);
  T* const values = shared.take<T>(kTileValues<kHead>);
  T* const queries = values;  // until the queries are in registers

  const AttentionTile tile = tiles[blockIdx.x];
  if (tile.num_rows == 0) return;
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t pair_column = lane % 4 * 2;  // the lane's first of 8 columns
  const uint32_t hidden = args.num_heads * kHead;
  const T* const first = static_cast<const T*>(args.qkv) + size_t{tile.first_row} * 3 * hidden +
                         size_t{blockIdx.y} * kHead;
  const TileCopy<T, kHead> copy(3 * hidden);
  const auto num_rows = static_cast<int>(tile.num_rows),
             first_query = static_cast<int>(tile.first_query);
  const T* next_keys = copy.mine(first + hidden);
  copy.bring(queries, copy.mine(first + size_t{tile.first_query} * 3 * hidden),
             num_rows - first_query);
  copy.bring(keys, next_keys, num_rows);
  const float* const biases =
      bias.base == nullptr ? nullptr
                           : slab_at<float>(bias, tile.slot) + blockIdx.y * kHead + pair_column;
  float2 of_queries[kOutTiles] = {};
  if (biases != nullptr)
#pragma unroll
    for (uint32_t i = 0; i < kOutTiles; ++i)
      of_queries[i] = *reinterpret_cast<const float2*>(biases + i * 8);

  wait_for_copies<1>();
  __syncwarp();  // a warp copied its own queries
  FragmentA q[kSteps];
#pragma unroll
  for (uint32_t step = 0; step < kSteps; ++step) {
    const T* row =
        queries + (warp * kWarpQueries + lane % 16) * kStride + step * 16 + lane / 16 * 8;
    const FourTiles four = load_tiles(row);
    for (uint32_t i = 0; i < 4; ++i)
      q[step].parts[i] = biases == nullptr
                             ? four.parts[i]
                             : biased_pair<T>(four.parts[i], of_queries[2 * step + i / 2]);
  }

  Sums out[kOutTiles] = {};
  constexpr float kInitialMax = kIsMasked ? kLowestScore : -INFINITY;
  float most[2] = {kInitialMax, kInitialMax}, total[2] = {0, 0};  // of rows g and g + 8
  KeyRange allowed[2];
  if constexpr (kIsMasked)
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t query = tile.first_query + warp * kWarpQueries + lane / 4 + half * 8;
      if (query < tile.num_rows) allowed[half] = keys_of[tile.first_row + query];
    }
  const float scale = args.scale * kLog2E;

  for (int keys_left = num_rows; keys_left > 0; keys_left -= kTile) {
    wait_for_copies<0>();
    // The keys have arrived. The previous values (at first the queries) are no longer read.
    __syncthreads();
    copy.bring(values, next_keys + hidden, keys_left);
    next_keys += size_t{kTile} * 3 * hidden;

    // Scores of 16 queries and kTile keys. One load brings two tiles of keys, both halves of a
    // step.
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
    const bool is_last = keys_left <= static_cast<int>(kTile);
    if (!is_last) {
      // These keys are no longer read: copy the next ones during the softmax.
      __syncthreads();
      copy.bring(keys, next_keys, keys_left - static_cast<int>(kTile));
    } else if (keys_left < static_cast<int>(kTile)) {
      const int mine_left = keys_left - static_cast<int>(pair_column);
      for (uint32_t i = 0; i < kScoreTiles; ++i)
        for (uint32_t c = 0; c < 2; ++c)
          if (static_cast<int>(i * 8 + c) >= mine_left)
            scores[i].values[c] = scores[i].values[2 + c] = -INFINITY;
    }

    if constexpr (kIsMasked) {
      const uint32_t first_key = tile.num_rows - static_cast<uint32_t>(keys_left) + pair_column;
      for (uint32_t i = 0; i < kScoreTiles; ++i)
        for (uint32_t c = 0; c < 4; ++c)
          if (!has(allowed[c / 2], first_key + i * 8 + c % 2)) scores[i].values[c] = -INFINITY;
    }

    for (uint32_t half = 0; half < 2; ++half) {
      float largest = most[half];
      for (uint32_t i = 0; i < kScoreTiles; ++i)
        for (uint32_t c = 0; c < 2; ++c) largest = fmaxf(largest, scores[i].values[2 * half + c]);
      largest = quad_max(largest);  // finite: a tile has a key, or kInitialMax is
      const float correction = exp2_approximately((most[half] - largest) * scale);
      const float shift = -largest * scale;
      most[half] = largest;
      float sum = 0;
      for (uint32_t i = 0; i < kScoreTiles; ++i)
        for (uint32_t c = 0; c < 2; ++c) {
          float& score = scores[i].values[2 * half + c];
          score = exp2_approximately(fmaf(score, scale, shift));
          sum += score;
        }
      total[half] = total[half] * correction + sum;
      for (uint32_t i = 0; i < kOutTiles; ++i)
        for (uint32_t c = 0; c < 2; ++c) out[i].values[2 * half + c] *= correction;
    }

    if (is_last)
      wait_for_copies<0>();
    else
      wait_for_copies<1>();  // the values; the next keys may still be in flight
    if constexpr (kIsMasked) copy.make_finite(values);
    __syncthreads();
    // The weights in the sums of two tiles form a fragment of [16 queries, 16 keys].
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
  }

  float2 lacking[kOutTiles] = {};
  if (biases != nullptr)
#pragma unroll
    for (uint32_t i = 0; i < kOutTiles; ++i)
      lacking[i] = *reinterpret_cast<const float2*>(biases + 2 * hidden + i * 8);
  T* const to = static_cast<T*>(args.out) + size_t{tile.first_row} * hidden +
                size_t{blockIdx.y} * kHead + pair_column;
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t query = tile.first_query + warp * kWarpQueries + lane / 4 + half * 8;
    const float inverse = 1.0f / quad_sum(total[half]);
    if (query >= tile.num_rows) continue;
    if (kIsMasked && allowed[half].begin == allowed[half].end) continue;  // padding
#pragma unroll
    for (uint32_t i = 0; i < kOutTiles; ++i)
      *reinterpret_cast<uint32_t*>(to + size_t{query} * hidden + i * 8) =
          pair_of<T>(out[i].values[2 * half] * inverse + lacking[i].x,
                     out[i].values[2 * half + 1] * inverse + lacking[i].y);
  }
}

// Calls body.operator()<kHead>() and returns true if a kernel exists for this head size.
template <uint32_t kHead = kTensorHead, class Body>
bool with_tensor_head(uint32_t head_size, const Body& body) {
  if (head_size == kHead) {
    body.template operator()<kHead>();
    return true;
  }
  if constexpr (kHead > kTensorHeadStep)
    return with_tensor_head<kHead - kTensorHeadStep>(head_size, body);
  return false;
}

// Calls body.operator()<kIsMasked>().
template <class Body>
void with_mask(const KeyRange* keys_of, const Body& body) {
  if (keys_of == nullptr) return body.template operator()<false>();
  return body.template operator()<true>();
}

template <class T, uint32_t kHead>
void launch_tensor(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
                   uint32_t num_tiles, const Slab& bias, const KeyRange* keys_of) {
  constexpr size_t kBytes = 2 * shared_bytes<T>(kTileValues<kHead>);
  static_assert(kBytes <= kSharedUnlessAllowed);
  with_mask(keys_of, [&]<bool kIsMasked>() {
    launch({.blocks = dim3(num_tiles, args.num_heads),
            .threads = dim3(kThreads),
            .shared_bytes = kBytes},
           attention_kernel<T, kHead, kIsMasked>, args, tiles, bias, keys_of);
  });
}

template <class T>
void launch_plain(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
                  uint32_t num_tiles, const KeyRange* keys_of) {
  const Grid grid{.blocks = dim3(num_tiles, args.num_heads), .threads = dim3(kWarp, kPlainQueries)};
  with_values_per_lane(args.head_size, [&]<uint32_t kPerLane>() {
    with_mask(keys_of, [&]<bool kIsMasked>() {
      launch(grid, attention_plain_kernel<T, kPerLane, kIsMasked>, args, tiles, keys_of);
    });
  });
}

}  // namespace

bool attention_adds_bias(DType activation, uint32_t head_size) {
  return activation != DType::kF32 && with_tensor_head(head_size, []<uint32_t>() {});
}
uint32_t attention_tile_queries(DType activation, uint32_t head_size) {
  return attention_adds_bias(activation, head_size) ? kTensorQueries : kPlainQueries;
}

void attention(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
               uint32_t num_tiles, const Slab& bias, const KeyRange* keys_of) {
  with_activation(launch.activation(), [&]<class T>() {
    if constexpr (sizeof(T) == 2)
      if (with_tensor_head(args.head_size, [&]<uint32_t kHead>() {
            launch_tensor<T, kHead>(launch, args, tiles, num_tiles, bias, keys_of);
          }))
        return;
    launch_plain<T>(launch, args, tiles, num_tiles, keys_of);
  });
}

}  // namespace itif::kernels::cuda
