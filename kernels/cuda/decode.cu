// Operators of decoders: writing keys and values to blocks of the cache, copying blocks, and
// attention over them.
#include "base/check.h"
#include "kernels/cuda/part.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / kWarp;

// One block per row. Its threads copy the key, then the value.
template <class T, uint32_t kWidth>
__global__ void append_kv_kernel(AppendKv args, const uint32_t* kv_rows) {
  const uint32_t row = blockIdx.x, width = args.pool.hidden, kv_row = kv_rows[row];
  if (kv_row == kNoKvRow) return;
  for (uint32_t i = threadIdx.x * kWidth; i < 2 * width; i += kThreads * kWidth) {
    const bool is_value = i >= width;
    const uint32_t column = is_value ? i - width : i;
    const T* from =
        static_cast<const T*>(is_value ? args.value : args.key) + row * args.row_stride + column;
    T* to = reinterpret_cast<T*>(args.pool.base) + args.pool.offset(kv_row, args.layer, is_value) +
            column;
    *reinterpret_cast<Part<T, kWidth>*>(to) = load_part<kWidth>(from);
  }
}

// One block per copy, layer, and keys or values. A thread loads kConcurrent parts before it stores
// the first.
template <class T, uint32_t kWidth>
__global__ void copy_kv_kernel(KvPool pool, const KvCopy* copies) {
  constexpr uint32_t kConcurrent = 8;
  const KvCopy copy = copies[blockIdx.x];
  const uint32_t layer = blockIdx.y / 2, is_value = blockIdx.y % 2;
  T* base = reinterpret_cast<T*>(pool.base);
  const T* from = base + pool.offset(copy.from * pool.block_tokens, layer, is_value);
  T* to = base + pool.offset(copy.to * pool.block_tokens, layer, is_value);
  const uint32_t count = copy.num_tokens * pool.hidden;
  constexpr uint32_t kStep = kThreads * kWidth;
  for (uint32_t first = threadIdx.x * kWidth; first < count; first += kConcurrent * kStep) {
    Part<T, kWidth> parts[kConcurrent];
#pragma unroll
    for (uint32_t i = 0; i < kConcurrent; ++i)
      if (first + i * kStep < count) parts[i] = load_part<kWidth>(from + first + i * kStep);
#pragma unroll
    for (uint32_t i = 0; i < kConcurrent; ++i)
      if (first + i * kStep < count)
        *reinterpret_cast<Part<T, kWidth>*>(to + first + i * kStep) = parts[i];
  }
}

// One block per row and head. Every kLanes lanes form a team that handles one key at a time, kParts
// times kWidth values per lane. Team t of n handles keys t, t + n, … with a separate softmax; the
// results of the teams are merged at the end. The row's length alone determines which team handles
// a key, and so the order of all sums.
template <class T, uint32_t kWidth, uint32_t kLanes, uint32_t kParts>
__global__ void __launch_bounds__(kThreads, 5)
    cached_attention_kernel(CachedAttention args, const KvTable* tables, const uint32_t* blocks) {
  constexpr uint32_t kTeams = kThreads / kLanes;
  constexpr uint32_t kKeys = kWidth * kParts > 8 ? 2 : 4;  // in flight per team
  SharedMemory shared;
  float* max_of = shared.take<float>(kWarps);
  float* total_of = shared.take<float>(kWarps);
  float* sums_of = shared.take<float>(kWarps * args.head_size);
  const uint32_t row = blockIdx.x, head = blockIdx.y;
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const uint32_t team = threadIdx.x / kLanes, first = threadIdx.x % kLanes * kWidth;
  const KvTable table = tables[row];
  if (table.num_tokens == 0) return;
  const uint32_t* my_blocks = blocks + table.first;
  const uint32_t shift = head * args.head_size, block_tokens = args.pool.block_tokens;
  const size_t block_values = args.pool.block_elements();
  const size_t to_value = size_t{block_tokens} * args.pool.hidden;
  const T* pool = reinterpret_cast<const T*>(args.pool.base) + args.pool.offset(0, args.layer, 0) +
                  shift + first;
  const auto is_mine = [&](uint32_t part) {
    return first + part * kLanes * kWidth < args.head_size;
  };

  const auto is_there = [&](uint32_t round, uint32_t key) {
    return round + key * kTeams + team < table.num_tokens;
  };

  // The query includes log2(e): the softmax uses exp2.
  float query[kParts][kWidth] = {};
  const T* my_query = static_cast<const T*>(args.query) + row * args.query_stride + shift + first;
#pragma unroll
  for (uint32_t p = 0; p < kParts; ++p)
    if (is_mine(p)) {
      const auto part = load_part<kWidth>(my_query + p * kLanes * kWidth);
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i)
        query[p][i] = to_float(part.values[i]) * (args.scale * 1.44269504f);
    }

  float sums[kParts][kWidth] = {};
  float most = -INFINITY, total = 0;
  // The block and the kv_row of the team's next key, advanced without a division.
  uint32_t block = 0, offset = team;
  // All lanes of a warp make the same number of rounds: they exchange parts of scores.
  for (uint32_t round = 0; round < table.num_tokens; round += kTeams * kKeys) {
    // Load the block numbers of all keys first: the loads of each key depend on them.
    uint32_t block_of[kKeys], offset_of[kKeys];
#pragma unroll
    for (uint32_t k = 0; k < kKeys; ++k) {
      while (offset >= block_tokens) {
        offset -= block_tokens;
        ++block;
      }
      block_of[k] = is_there(round, k) ? my_blocks[block] : 0;
      offset_of[k] = offset;
      offset += kTeams;
    }
    Part<T, kWidth> keys[kKeys][kParts], values[kKeys][kParts];
#pragma unroll
    for (uint32_t k = 0; k < kKeys; ++k) {
      const T* key = pool + block_of[k] * block_values + offset_of[k] * args.pool.hidden;
#pragma unroll
      for (uint32_t p = 0; p < kParts; ++p) {
        keys[k][p] = values[k][p] = {};
        if (is_there(round, k) && is_mine(p)) {
          keys[k][p] = load_part<kWidth>(key + p * kLanes * kWidth);
          values[k][p] = load_part<kWidth>(key + to_value + p * kLanes * kWidth);
        }
      }
    }
    float scores[kKeys] = {};
#pragma unroll
    for (uint32_t k = 0; k < kKeys; ++k)
#pragma unroll
      for (uint32_t p = 0; p < kParts; ++p)
#pragma unroll
        for (uint32_t i = 0; i < kWidth; ++i)
          scores[k] += query[p][i] * to_float(keys[k][p].values[i]);
#pragma unroll
    for (uint32_t distance = kLanes / 2; distance > 0; distance /= 2)
#pragma unroll
      for (uint32_t k = 0; k < kKeys; ++k)
        scores[k] += __shfl_xor_sync(kAllLanes, scores[k], static_cast<int>(distance));
    float largest = most;
#pragma unroll
    for (uint32_t k = 0; k < kKeys; ++k) {
      if (!is_there(round, k)) scores[k] = -INFINITY;
      largest = fmaxf(largest, scores[k]);
    }
    // A team without a key so far has nothing to rescale, and weights of 0.
    const float shift_by = largest == -INFINITY ? 0 : largest;
    const float correction = exp2f(most - shift_by);
    most = largest;
    total *= correction;
#pragma unroll
    for (uint32_t p = 0; p < kParts; ++p)
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i) sums[p][i] *= correction;
#pragma unroll
    for (uint32_t k = 0; k < kKeys; ++k) {
      const float weight = exp2f(scores[k] - shift_by);
      total += weight;
#pragma unroll
      for (uint32_t p = 0; p < kParts; ++p)
#pragma unroll
        for (uint32_t i = 0; i < kWidth; ++i)
          sums[p][i] += weight * to_float(values[k][p].values[i]);
    }
  }

  // Merge the teams of a warp, then the warps.
  const float of_warp = warp_max(most);
  const float correction = of_warp == -INFINITY ? 0 : exp2f(most - of_warp);
  total *= correction;
#pragma unroll
  for (uint32_t p = 0; p < kParts; ++p)
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) sums[p][i] *= correction;
#pragma unroll
  for (uint32_t distance = kLanes; distance < kWarp; distance *= 2) {
    total += __shfl_xor_sync(kAllLanes, total, static_cast<int>(distance));
#pragma unroll
    for (uint32_t p = 0; p < kParts; ++p)
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i)
        sums[p][i] += __shfl_xor_sync(kAllLanes, sums[p][i], static_cast<int>(distance));
  }
  if (lane == 0) {
    max_of[warp] = of_warp;
    total_of[warp] = total;
  }
  if (lane < kLanes)
#pragma unroll
    for (uint32_t p = 0; p < kParts; ++p)
      if (is_mine(p))
#pragma unroll
        for (uint32_t i = 0; i < kWidth; ++i)
          sums_of[warp * args.head_size + first + p * kLanes * kWidth + i] = sums[p][i];
  __syncthreads();
  float largest = -INFINITY;
#pragma unroll
  for (uint32_t w = 0; w < kWarps; ++w) largest = fmaxf(largest, max_of[w]);
  float corrections[kWarps], all = 0;
#pragma unroll
  for (uint32_t w = 0; w < kWarps; ++w) {
    corrections[w] = exp2f(max_of[w] - largest);
    all += corrections[w] * total_of[w];
  }
  T* out = static_cast<T*>(args.out) + size_t{row} * args.num_heads * args.head_size + shift;
  for (uint32_t i = threadIdx.x; i < args.head_size; i += kThreads) {
    float sum = 0;
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) sum += corrections[w] * sums_of[w * args.head_size + i];
    out[i] = from_float<T>(sum / all);
  }
}

template <class T, uint32_t kWidth, uint32_t kLanes, uint32_t kParts>
void launch_attention(const Launcher& launch, const CachedAttention& args, const KvTable* tables,
                      const uint32_t* blocks, uint32_t num_rows) {
  launch({.blocks = dim3(num_rows, args.num_heads),
          .threads = dim3(kThreads),
          .shared_bytes =
              2 * shared_bytes<float>(kWarps) + shared_bytes<float>(kWarps * args.head_size)},
         cached_attention_kernel<T, kWidth, kLanes, kParts>, args, tables, blocks);
}

}  // namespace

void run(const AppendKv& args, Plan& plan) {
  const uint32_t* kv_rows = plan.put(args.kv_rows);
  const uint32_t num_rows = count(args.kv_rows);
  const Launcher& launch = plan.launcher(kv_rows, num_rows);
  with_activation(launch.activation(), [&]<class T>() {
    const bool is_wide = is_packed<T>(args.pool.hidden) && args.row_stride % Pack<T>::kWidth == 0;
    launch({.blocks = dim3(num_rows), .threads = dim3(kThreads)},
           is_wide ? append_kv_kernel<T, Pack<T>::kWidth> : append_kv_kernel<T, 1>, args, kv_rows);
  });
}

void run(const CopyKv& args, Plan& plan) {
  const KvCopy* copies = plan.put(args.copies);
  const uint32_t num_copies = count(args.copies);
  const Launcher& launch = plan.launcher(copies, num_copies);
  with_activation(launch.activation(), [&]<class T>() {
    launch(
        {.blocks = dim3(num_copies, 2 * args.pool.num_layers), .threads = dim3(kThreads)},
        is_packed<T>(args.pool.hidden) ? copy_kv_kernel<T, Pack<T>::kWidth> : copy_kv_kernel<T, 1>,
        args.pool, copies);
  });
}

void run(const CachedAttention& args, Plan& plan) {
  CHECK(args.pool.block_tokens <= kMaxKvBlockTokens);
  const KvTable* tables = plan.put(args.tables);
  const uint32_t* blocks = plan.put_with_capacity(args.blocks, args.max_blocks);
  const uint32_t num_rows = count(args.tables);
  const Launcher& launch = plan.launcher(tables, blocks, num_rows);
  with_activation(launch.activation(), [&]<class T>() {
    constexpr uint32_t kWide = Pack<T>::kWidth;
    static_assert(kMaxHeadSize == kWarp * 8 && kMaxHeadSize <= kWarp * kWide * 2);
    const auto with = [&]<uint32_t kWidth, uint32_t kLanes, uint32_t kParts>() {
      launch_attention<T, kWidth, kLanes, kParts>(launch, args, tables, blocks, num_rows);
    };
    const uint32_t packs = args.head_size / kWide;
    if (args.head_size % kWide != 0 || args.query_stride % kWide != 0)
      with.template operator()<1, kWarp, kMaxHeadSize / kWarp>();
    else if (packs <= 4)
      with.template operator()<kWide, 4, 1>();
    else if (packs <= 8)
      with.template operator()<kWide, 8, 1>();
    else if (packs <= 16)
      with.template operator()<kWide, 16, 1>();
    else
      with.template operator()<kWide, kWarp, kMaxHeadSize / kWarp / kWide>();
  });
}

}  // namespace itif::kernels::cuda
