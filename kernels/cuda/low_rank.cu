// The low-rank updates of all adapters of a batch in one launch per GEMM. A block computes a tile
// of an adapter's rows and one module: x · down stays in shared memory, and its product with `up`
// is added to the result. Grid: x is the tile of rows, y
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
//
// A block computes 16 rows. Its warps first split the depth of x · down, then the columns of the
// product with `up`. Each warp copies its own tiles of `down` and `up`, as many values at a time as
// fit its part of shared memory, so that a small rank needs few rounds, and no warp waits for
// another one's copies.

constexpr uint32_t kTile = 16;                   // rows of a block
constexpr uint32_t kWarpValues = 64 * (64 + 8);  // of a warp's part of shared memory
constexpr uint32_t kStepsAtOnce = 4;             // of 16 columns of x, held in registers
constexpr uint32_t kColumnsAtOnce = 64;          // of results, held in registers
// Floats from a row of x · down to the next in shared memory.
constexpr uint32_t kSumStride = kRanks + 8;
static_assert(kTile * kSumStride * sizeof(float) <= kWarpValues * 2);

// A warp's tile in its part of shared memory: rows of `columns` values and eight more, against bank
// conflicts.
template <class T>
struct WarpTile {
  T* values;
  uint32_t rows, columns;  // multiples of 16

  __device__ uint32_t stride() const { return columns + 8; }
  // The lane's address for loads of 16 columns, at their first row and column.
  __device__ const T* at(uint32_t row, uint32_t column) const {
    const uint32_t lane = threadIdx.x % kWarp;
    return values + (row + lane % 16) * stride() + column + lane / 16 * 8;
  }
  // Copies a part of a matrix, of which [valid_rows, valid_columns] are inside; the rest of the
  // tile becomes zeros. REQUIRES: valid_columns is a multiple of a pack.
  __device__ void bring(const T* from, uint32_t from_stride, uint32_t valid_rows,
                        uint32_t valid_columns) {
    const uint32_t packs = columns / 8;
    for (uint32_t i = threadIdx.x % kWarp; i < rows * packs; i += kWarp) {
      const uint32_t row = i / packs, column = i % packs * 8;
      const bool is_inside = row < valid_rows && column < valid_columns;
      copy_async(values + row * stride() + column,
                 is_inside ? from + size_t{row} * from_stride + column : from, is_inside ? 16 : 0);
    }
    commit_copies();
  }
  __device__ void wait() const {
    wait_for_copies<0>();
    __syncwarp();  // the lanes read what others have copied
  }
};

template <class T>
__device__ uint32_t pair_of(float first, float second) {
  struct alignas(4) Pair {
    T values[2];
  } const pair = {{from_float<T>(first), from_float<T>(second)}};
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <class T>
__device__ uint32_t plus(uint32_t pair, float first, float second) {
  const T* const values = reinterpret_cast<const T*>(&pair);
  return pair_of<T>(to_float(values[0]) + first, to_float(values[1]) + second);
}

// Loads a fragment of x: the rows and columns of the lane, zeros outside.
template <class T>
__device__ FragmentA load_x(const Part<T>& part, uint32_t k, uint32_t column) {
  const uint32_t lane = threadIdx.x % kWarp, row = lane / 4;
  FragmentA a;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t at_row = row + i % 2 * 8, at_column = column + lane % 4 * 2 + i / 2 * 8;
    a.parts[i] = at_row < part.num_rows && at_column < k
                     ? *reinterpret_cast<const uint32_t*>(part.x + size_t{at_row} * k + at_column)
                     : 0;
  }
  return a;
}

// Adds a [16, 16] · b [16, columns] to sums; `columns`: at most 8 per sum.
template <class T, uint32_t kSums>
__device__ void multiply_row(Sums (&sums)[kSums], const FragmentA& a, const T* row,
                             uint32_t columns) {
#pragma unroll
  for (uint32_t pair = 0; pair < kSums / 2; ++pair) {
    if (pair * 16 >= columns) break;
    const FourTiles four = load_tiles_transposed(row + pair * 16);
    multiply_add(sums[2 * pair], a, {{four.parts[0], four.parts[1]}}, T{});
    multiply_add(sums[2 * pair + 1], a, {{four.parts[2], four.parts[3]}}, T{});
  }
}

// Computes the warp's share of x · down for `ranks` ranks.
template <class T>
__device__ void multiply_down(Sums (&between)[kRanks / 8], const Part<T>& part, uint32_t k,
                              const T* down, uint32_t ranks, T* shared) {
  const uint32_t warp = threadIdx.x / kWarp, padded = (ranks + 15) / 16 * 16;
  const uint32_t steps = min(kWarpValues / (padded + 8), (div_up(k, kWarps) + 15) / 16 * 16) / 16;
  WarpTile<T> tile = {shared, steps * 16, padded};
  for (uint32_t depth = warp * tile.rows; depth < k; depth += kWarps * tile.rows) {
    tile.bring(down + size_t{depth} * part.module.rank, part.module.rank, k - depth, ranks);
    FragmentA next[kStepsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kStepsAtOnce; ++i) next[i] = load_x(part, k, depth + i * 16);
    tile.wait();
    for (uint32_t first = 0; first < steps; first += kStepsAtOnce) {
      FragmentA now[kStepsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kStepsAtOnce; ++i) {
        now[i] = next[i];
        if (first + kStepsAtOnce < steps)
          next[i] = load_x(part, k, depth + (first + kStepsAtOnce + i) * 16);
      }
#pragma unroll
      for (uint32_t i = 0; i < kStepsAtOnce; ++i)
        if (first + i < steps) multiply_row(between, now[i], tile.at((first + i) * 16, 0), padded);
    }
    __syncwarp();  // before the next copies to the tile
  }
}

// Adds the warp's share of the columns of (x · down) · up to the results.
template <class T>
__device__ void multiply_up(const FragmentA (&a)[kRanks / 16], const Part<T>& part, uint32_t width,
                            uint32_t columns, const T* up, uint32_t ranks, T* shared) {
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t padded = (ranks + 15) / 16 * 16;
  const uint32_t fit = (kWarpValues / padded - 8) / kColumnsAtOnce;
  const uint32_t wanted = div_up(div_up(columns, kWarps), kColumnsAtOnce);
  WarpTile<T> tile = {shared, padded, min(fit, wanted) * kColumnsAtOnce};
  for (uint32_t begin = warp * tile.columns; begin < columns; begin += kWarps * tile.columns) {
    tile.bring(up + begin, columns, ranks, columns - begin);
    for (uint32_t column = 0; column < tile.columns && begin + column < columns;
         column += kColumnsAtOnce) {
      T* const to = part.out + size_t{lane / 4} * width + begin + column + lane % 4 * 2;
      const uint32_t left = columns - begin - column;
      const auto result = [&](uint32_t i, uint32_t half) {
        return reinterpret_cast<uint32_t*>(to + size_t{half * 8} * width + i * 8);
      };
      const auto is_inside = [&](uint32_t i, uint32_t half) {
        return lane / 4 + half * 8 < part.num_rows && i * 8 < left;
      };
      uint32_t before[kColumnsAtOnce / 8][2];
#pragma unroll
      for (uint32_t i = 0; i < kColumnsAtOnce / 8; ++i)
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half)
          before[i][half] = is_inside(i, half) ? *result(i, half) : 0;
      if (column == 0) tile.wait();
      Sums sums[kColumnsAtOnce / 8] = {};
#pragma unroll
      for (uint32_t step = 0; step < kRanks / 16; ++step) {
        if (step * 16 >= ranks) break;
        multiply_row(sums, a[step], tile.at(step * 16, column), left);
      }
#pragma unroll
      for (uint32_t i = 0; i < kColumnsAtOnce / 8; ++i)
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half)
          if (is_inside(i, half))
            *result(i, half) =
                plus<T>(before[i][half], sums[i].values[2 * half], sums[i].values[2 * half + 1]);
    }
    __syncwarp();  // before the next copies to the tile
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    low_rank_kernel(AddLowRank args, const AdapterRows* adapters) {
  SharedMemory shared;
  T* const tiles = shared.take<T>(kWarps * kWarpValues);
  const Part<T> part(args, adapters, kTile);
  if (part.num_rows == 0) return;
  const uint32_t columns = args.width / args.num_modules, rank = part.module.rank;
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  T* const mine = tiles + warp * kWarpValues;

  for (uint32_t first = 0; first < rank; first += kRanks) {
    const uint32_t ranks = min(kRanks, rank - first);
    Sums between[kRanks / 8] = {};
    multiply_down(between, part, args.k, static_cast<const T*>(part.module.down) + first, ranks,
                  mine);
    // Each warp's sums replace its tile. All warps then add those of all.
    const auto sums_of = [&](uint32_t of_warp, uint32_t row, uint32_t column) {
      return reinterpret_cast<float*>(tiles + of_warp * kWarpValues) + row * kSumStride + column;
    };
#pragma unroll
    for (uint32_t i = 0; i < kRanks / 8; ++i) {
      if (i * 8 >= ranks) break;
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        float* const to = sums_of(warp, lane / 4 + half * 8, i * 8 + lane % 4 * 2);
        to[0] = between[i].values[2 * half];
        to[1] = between[i].values[2 * half + 1];
      }
    }
    __syncthreads();  // the sums of all warps are there
    FragmentA a[kRanks / 16] = {};
#pragma unroll
    for (uint32_t part_of_a = 0; part_of_a < kRanks / 4; ++part_of_a) {
      const uint32_t step = part_of_a / 4, i = part_of_a % 4;
      const uint32_t column = step * 16 + lane % 4 * 2 + i / 2 * 8;
      if (column >= ranks) continue;
      float first_sum = 0, second_sum = 0;
#pragma unroll
      for (uint32_t w = 0; w < kWarps; ++w) {
        const float* const from = sums_of(w, lane / 4 + i % 2 * 8, column);
        first_sum += from[0];
        second_sum += from[1];
      }
      a[step].parts[i] = pair_of<T>(first_sum, second_sum);
    }
    __syncthreads();  // before the copies of `up` replace the sums
    multiply_up(a, part, args.width, columns,
                static_cast<const T*>(part.module.up) + size_t{first} * columns, ranks, mine);
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
        constexpr size_t kBytes = shared_bytes<T>(kWarps * kWarpValues);
        static_assert(kBytes <= kSharedUnlessAllowed);
        return launch(grid(kTile, kBytes), low_rank_kernel<T>, args, adapters);
      }
    launch(grid(kPlainRows, shared_bytes<float>(kPlainRows * kRanks)), low_rank_plain_kernel<T>,
           args, adapters);
  });
}

}  // namespace itif::kernels::cuda
