// The low-rank updates of all adapters of a batch in one launch per GEMM. A block computes a tile
// of an adapter's rows and one module: x · down stays in registers or shared memory, then each
// block of columns of its product with `up` is added to the result. Grid: x is the tile of rows, y
// the module, z the adapter.
//
// There are two kernels. One uses tensor cores, for 16-bit types and sizes that are multiples of a
// pack. The plain one takes f32 and all other sizes.
#include <algorithm>
#include <bit>

#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/tensor_cores.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr uint32_t kRanks = 64;  // at a time

// The rows and columns of a block.
template <class T>
struct Part {
  LowRankModule module;
  const T* x = nullptr;  // its first row
  T* out = nullptr;      // its first row and column
  uint32_t num_rows = 0;

  // `tile`: rows of a tile. No rows: there is nothing to compute.
  __device__ Part(const AddLowRank& args, const AdapterRows* adapters, uint32_t tile) {
    const AdapterRows rows = adapters[blockIdx.z];
    const uint32_t before = blockIdx.x * tile;
    if (before >= rows.num_rows) return;
    module = rows.modules[args.first_module + blockIdx.y];
    if (module.rank == 0) return;
    const size_t row = size_t{rows.first_row} + before;
    x = static_cast<const T*>(args.x) + row * args.k;
    out = static_cast<T*>(args.out) + row * args.width +
          size_t{blockIdx.y} * (args.width / args.num_modules);
    num_rows = min(tile, rows.num_rows - before);
  }
};

// ---- Plain ----

constexpr uint32_t kPlainRows = 16;

template <class T>
__global__ void __launch_bounds__(kThreads)
    low_rank_plain_kernel(AddLowRank args, const AdapterRows* adapters) {
  SharedMemory shared;
  float* const between = shared.take<float>(kPlainRows * kRanks);
  const Part<T> part(args, adapters, kPlainRows);
  if (part.num_rows == 0) return;
  const uint32_t columns = args.width / args.num_modules, rank = part.module.rank;
  for (uint32_t first = 0; first < rank; first += kRanks) {
    const uint32_t ranks = min(kRanks, rank - first);
    const T* const down = static_cast<const T*>(part.module.down) + first;
    for (uint32_t i = threadIdx.x; i < part.num_rows * ranks; i += kThreads) {
      const T* const x = part.x + size_t{i / ranks} * args.k;
      float sum = 0;
      for (uint32_t j = 0; j < args.k; ++j)
        sum += to_float(x[j]) * to_float(down[size_t{j} * rank + i % ranks]);
      between[i] = sum;
    }
    __syncthreads();
    const T* const up = static_cast<const T*>(part.module.up) + size_t{first} * columns;
    for (uint32_t column = threadIdx.x; column < columns; column += kThreads) {
      float sums[kPlainRows] = {};
      for (uint32_t i = 0; i < ranks; ++i) {
        const float value = to_float(up[size_t{i} * columns + column]);
#pragma unroll
        for (uint32_t r = 0; r < kPlainRows; ++r)
          if (r < part.num_rows) sums[r] += between[r * ranks + i] * value;
      }
#pragma unroll
      for (uint32_t r = 0; r < kPlainRows; ++r) {
        if (r >= part.num_rows) break;
        T& value = part.out[size_t{r} * args.width + column];
        value = from_float<T>(to_float(value) + sums[r]);
      }
    }
    __syncthreads();
  }
}

// ---- On tensor cores ----

constexpr uint32_t kTile = 64;  // rows of a block; depth and columns of a step
static_assert(kTile == kWarps * 16 && kTile == kRanks);
// Values from a row of a tile to the next in shared memory: eight more, against bank conflicts.
constexpr uint32_t kStride = kTile + 8;
constexpr uint32_t kTileValues = kTile * kStride;

// Starts copying [rows, columns] of a matrix; the rest of the tile becomes zeros. REQUIRES: columns
// is a multiple of a pack.
template <class T>
__device__ void bring(T* tile, const T* from, uint32_t stride, uint32_t rows, uint32_t columns) {
  constexpr uint32_t kWidth = Pack<T>::kWidth, kPacks = kTile / kWidth;
#pragma unroll
  for (uint32_t n = 0; n < kTile * kPacks / kThreads; ++n) {
    const uint32_t pack = threadIdx.x + n * kThreads;
    const uint32_t row = pack / kPacks, column = pack % kPacks * kWidth;
    const bool is_inside = row < rows && column < columns;
    copy_async(tile + row * kStride + column,
               is_inside ? from + size_t{row} * stride + column : from, is_inside ? 16 : 0);
  }
}

template <class T>
__device__ uint32_t pair_of(float first, float second) {
  struct alignas(4) Pair {
    T values[2];
  } const pair = {{from_float<T>(first), from_float<T>(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <class T>
__device__ void add_pair(T* at, float first, float second) {
  at[0] = from_float<T>(to_float(at[0]) + first);
  at[1] = from_float<T>(to_float(at[1]) + second);
}

// Adds a [16, 16] · b [16, ranks or columns] to sums; `row`: the lane's row of b's tiles.
template <class T>
__device__ void multiply_row(Sums (&sums)[kTile / 8], const FragmentA& a, const T* row,
                             uint32_t columns) {
#pragma unroll
  for (uint32_t pair = 0; pair < kTile / 16; ++pair) {
    if (pair * 16 >= columns) break;
    const FourTiles four = load_tiles_transposed(row + pair * 16);
    multiply_add(sums[2 * pair], a, {{four.parts[0], four.parts[1]}}, T{});
    multiply_add(sums[2 * pair + 1], a, {{four.parts[2], four.parts[3]}}, T{});
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    low_rank_kernel(AddLowRank args, const AdapterRows* adapters) {
  SharedMemory shared;
  T* const inputs = shared.take<T>(2 * kTileValues);  // of two stages
  T* const weights = shared.take<T>(2 * kTileValues);
  const Part<T> part(args, adapters, kTile);
  if (part.num_rows == 0) return;
  const uint32_t columns = args.width / args.num_modules, rank = part.module.rank;
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t my_row = lane % 16 * kStride + lane / 16 * 8;  // of a pair of tiles

  for (uint32_t first = 0; first < rank; first += kRanks) {
    const uint32_t ranks = min(kRanks, rank - first);
    const T* const down = static_cast<const T*>(part.module.down) + first;
    const auto bring_depth = [&](uint32_t depth, uint32_t stage) {
      bring(inputs + stage * kTileValues, part.x + depth, args.k, part.num_rows, args.k - depth);
      bring(weights + stage * kTileValues, down + size_t{depth} * rank, rank, args.k - depth,
            ranks);
      commit_copies();
    };
    Sums between[kRanks / 8] = {};
    bring_depth(0, 0);
    for (uint32_t depth = 0, stage = 0; depth < args.k; depth += kTile, stage ^= 1) {
      const bool is_last = depth + kTile >= args.k;
      if (!is_last) bring_depth(depth + kTile, stage ^ 1);
      is_last ? wait_for_copies<0>() : wait_for_copies<1>();
      __syncthreads();  // x and down have arrived
#pragma unroll
      for (uint32_t step = 0; step < kTile / 16; ++step) {
        const FourTiles four =
            load_tiles(inputs + stage * kTileValues + warp * 16 * kStride + my_row + step * 16);
        const FragmentA a = {{four.parts[0], four.parts[1], four.parts[2], four.parts[3]}};
        multiply_row(between, a, weights + stage * kTileValues + step * 16 * kStride + my_row,
                     ranks);
      }
      __syncthreads();  // before the next copies to this stage
    }

    // The sums of two tiles form a fragment of [16 rows, 16 ranks].
    FragmentA a[kRanks / 16];
#pragma unroll
    for (uint32_t step = 0; step < kRanks / 16; ++step) {
      const Sums &left = between[2 * step], &right = between[2 * step + 1];
      a[step] = {{pair_of<T>(left.values[0], left.values[1]),
                  pair_of<T>(left.values[2], left.values[3]),
                  pair_of<T>(right.values[0], right.values[1]),
                  pair_of<T>(right.values[2], right.values[3])}};
    }
    const T* const up = static_cast<const T*>(part.module.up) + size_t{first} * columns;
    const auto bring_columns = [&](uint32_t column, uint32_t stage) {
      bring(weights + stage * kTileValues, up + column, columns, ranks, columns - column);
      commit_copies();
    };
    bring_columns(0, 0);
    for (uint32_t column = 0, stage = 0; column < columns; column += kTile, stage ^= 1) {
      const bool is_last = column + kTile >= columns;
      if (!is_last) bring_columns(column + kTile, stage ^ 1);
      is_last ? wait_for_copies<0>() : wait_for_copies<1>();
      __syncthreads();  // up has arrived
      Sums sums[kTile / 8] = {};
#pragma unroll
      for (uint32_t step = 0; step < kRanks / 16; ++step) {
        if (step * 16 >= ranks) break;
        multiply_row(sums, a[step], weights + stage * kTileValues + step * 16 * kStride + my_row,
                     columns - column);
      }
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t row = warp * 16 + lane / 4 + half * 8;
        if (row >= part.num_rows) continue;
        T* const to = part.out + size_t{row} * args.width + column + lane % 4 * 2;
#pragma unroll
        for (uint32_t i = 0; i < kTile / 8; ++i)
          if (column + i * 8 < columns)
            add_pair(to + i * 8, sums[i].values[2 * half], sums[i].values[2 * half + 1]);
      }
      __syncthreads();  // before the next columns are brought to this stage
    }
  }
}

template <class T>
bool fits_tensor_cores(const AddLowRank& args) {
  return sizeof(T) == 2 && is_packed<T>(args.k) && is_packed<T>(args.width / args.num_modules) &&
         reinterpret_cast<uintptr_t>(args.x) % 16 == 0;
}

}  // namespace

void run(const AddLowRank& args, Plan& plan) {
  const AdapterRows* adapters = plan.put(args.adapters);
  if (adapters == nullptr) return;
  uint32_t rows = 1;  // the most of any adapter
  for (const AdapterRows& adapter : args.adapters) rows = std::max(rows, adapter.num_rows);
  // Few numbers of blocks, so that few graphs differ.
  rows = kPlainRows * std::bit_ceil(div_up(rows, kPlainRows));
  const uint32_t num_adapters = count(args.adapters);
  const Launcher& launch = plan.launcher(adapters, num_adapters, rows);
  const auto grid = [&](uint32_t tile, size_t shared) {
    return Grid{.blocks = dim3(div_up(rows, tile), args.num_modules, num_adapters),
                .threads = dim3(kThreads),
                .shared_bytes = shared};
  };
  with_activation(launch.activation(), [&]<class T>() {
    if constexpr (sizeof(T) == 2)
      if (fits_tensor_cores<T>(args)) {
        constexpr size_t kBytes = 2 * shared_bytes<T>(2 * kTileValues);
        static_assert(kBytes <= kSharedUnlessAllowed);
        return launch(grid(kTile, kBytes), low_rank_kernel<T>, args, adapters);
      }
    launch(grid(kPlainRows, shared_bytes<float>(kPlainRows * kRanks)), low_rank_plain_kernel<T>,
           args, adapters);
  });
}

}  // namespace itif::kernels::cuda
