// Tests of the simulator: behaviour that a GPU would let pass, or that gives random results there,
// ends a kernel here or spoils its result.
#include "simt.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cuda/approximate.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/tensor_cores.h"

namespace simt {
namespace {

namespace cuda = itif::kernels::cuda;
using cuda::SharedMemory;

constexpr uint32_t kThreads = 256, kBlocks = 64;

// Sums kThreads values per block, with or without the barriers that this needs.
struct Reduction {
  bool has_first_barrier = true, has_later_barriers = true;
  uint32_t shift = 0;  // of the addresses that threads write: past the piece, if not 0
};
std::vector<float> reduce(const Reduction& how) {
  std::vector<float> in(kBlocks * kThreads), out(kBlocks);
  std::iota(in.begin(), in.end(), 1.0f);
  run_grid("reduce", {kBlocks}, {kThreads}, kThreads * sizeof(float), [&] {
    SharedMemory shared;
    auto* values = shared.take<float>(kThreads);
    const uint32_t thread = threadIdx.x;
    values[thread + how.shift] = in[blockIdx.x * kThreads + thread];
    if (how.has_first_barrier) __syncthreads();
    for (uint32_t half = kThreads / 2; half > 0; half /= 2) {
      if (thread < half) values[thread] += values[thread + half];
      if (how.has_later_barriers) __syncthreads();
    }
    if (thread == 0) out[blockIdx.x] = values[0];
  });
  return out;
}
size_t num_wrong(const std::vector<float>& sums) {
  size_t wrong = 0;
  for (size_t block = 0; block < sums.size(); ++block) {
    const float first = static_cast<float>(block * kThreads) + 1;
    const float sum = kThreads * (first + first + kThreads - 1) / 2;
    wrong += !(std::abs(sums[block] - sum) <= 1e-3f * sum);
  }
  return wrong;
}

TEST(Simt, BlockSumsWithBarriers) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    set_seed(seed);
    EXPECT_EQ(num_wrong(reduce({})), 0u) << "seed " << seed;
  }
}

TEST(Simt, MissingBarrierGivesWrongResults) {
  set_seed(1);
  EXPECT_GT(num_wrong(reduce({.has_first_barrier = false})), kBlocks / 2);
  EXPECT_GT(num_wrong(reduce({.has_later_barriers = false})), kBlocks / 2);
}

TEST(Simt, SeedDeterminesOrder) {
  const auto order = [](uint64_t seed) {
    set_seed(seed);
    std::vector<uint32_t> order;
    run_grid("order", {4}, {64}, 0,
             [&] { order.push_back(blockIdx.x * blockDim.x + threadIdx.x); });
    return order;
  };
  EXPECT_EQ(order(5), order(5));
  EXPECT_NE(order(5), order(6));
}

TEST(Simt, EveryThreadRunsOnce) {
  std::vector<int> seen(3 * 2 * 2 * 40);
  run_grid("all", {3, 2, 2}, {5, 4, 2}, 0, [&] {
    const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    EXPECT_EQ(thread % kWarpThreads, lane());
    ++seen[block * 40 + thread];
  });
  EXPECT_EQ(std::ranges::count(seen, 1), std::ssize(seen));
}

TEST(Simt, LanesExchangeValues) {
  run_grid("lanes", {2}, {64}, 0, [&] {
    const auto value = static_cast<float>(lane());
    float sum = value;
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    EXPECT_EQ(sum, 496.0f);
    EXPECT_EQ(__shfl_sync(~0u, value, 7), 7.0f);
    EXPECT_EQ(__shfl_down_sync(~0u, value, 3), lane() < 29 ? value + 3 : value);
    EXPECT_EQ(__shfl_up_sync(~0u, value, 3), lane() < 3 ? value : value - 3);
    EXPECT_EQ(__ballot_sync(~0u, lane() % 3 == 0), 0x49249249u);
    EXPECT_TRUE(__any_sync(~0u, lane() == 31));
    EXPECT_FALSE(__all_sync(~0u, lane() != 31));
    if (lane() >= 8) return;
    EXPECT_EQ(__shfl_sync(0xFFu, value, 2), 2.0f);
  });
}

TEST(Simt, SharedMemoryStartsAsNan) {
  run_grid("unset", {1}, {1}, 64, [&] {
    SharedMemory shared;
    EXPECT_TRUE(std::isnan(shared.take<float>(16)[3]));
  });
}

// Compares a product of tiles with a plain one: the lanes hold the values that PTX documents.
TEST(Simt, TensorCoresMultiply) {
  using namespace cuda;
  std::vector<float> a(16 * 16), b(16 * 8);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 11) - 5;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 13) - 6;
  std::vector<float> out(16 * 8);
  run_grid("multiply", {1}, {32}, 4096, [&] {
    SharedMemory shared;
    auto* tile = shared.take<Bf16>(16 * 16);
    auto* columns = shared.take<Bf16>(16 * 16);
    for (uint32_t i = lane(); i < 256; i += 32) {
      tile[i] = from_float<Bf16>(a[i]);
      columns[i] = from_float<Bf16>(i % 16 < 8 ? b[i / 16 * 8 + i % 16] : 0.0f);  // [k][n]
    }
    __syncwarp();
    const FourTiles of_a = load_tiles(tile + lane() % 16 * 16 + lane() / 16 * 8);
    const FourTiles of_b = load_tiles_transposed(columns + lane() % 16 * 16 + lane() / 16 * 8);
    FragmentA fragment;
    for (uint32_t i = 0; i < 4; ++i) fragment.parts[i] = of_a.parts[i];
    Sums sums = {};
    multiply_add(sums, fragment, {{of_b.parts[0], of_b.parts[1]}}, Bf16{});
    for (uint32_t i = 0; i < 4; ++i)
      out[(lane() / 4 + i / 2 * 8) * 8 + lane() % 4 * 2 + i % 2] = sums.values[i];
  });
  for (uint32_t row = 0; row < 16; ++row)
    for (uint32_t column = 0; column < 8; ++column) {
      float expected = 0;
      for (uint32_t k = 0; k < 16; ++k) expected += a[row * 16 + k] * b[k * 8 + column];
      EXPECT_EQ(out[row * 8 + column], expected) << row << ", " << column;
    }
}

TEST(Simt, AsyncCopyArrivesWhenWaitedFor) {
  alignas(16) const float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  run_grid("copies", {1}, {1}, 32, [&] {
    SharedMemory shared;
    auto* to = shared.take<float>(8);
    cuda::copy_async(to, from);
    cuda::commit_copies();
    cuda::copy_async(to + 4, from + 4);
    cuda::commit_copies();
    EXPECT_TRUE(std::isnan(to[0]));
    cuda::wait_for_copies<1>();
    EXPECT_EQ(to[3], 4.0f);
    EXPECT_TRUE(std::isnan(to[4]));
    cuda::wait_for_copies<0>();
    EXPECT_EQ(to[7], 8.0f);
  });
}

TEST(Simt, AsyncCopyZeroFills) {
  alignas(16) const float from[4] = {1, 2, 3, 4};
  for (const uint32_t floats : {0u, 1u, 3u, 4u})
    run_grid("copies", {1}, {1}, 16, [&] {
      SharedMemory shared;
      auto* to = shared.take<float>(4);
      cuda::copy_async(to, from, floats * 4);
      cuda::commit_copies();
      cuda::wait_for_copies<0>();
      for (uint32_t i = 0; i < 4; ++i)
        EXPECT_EQ(to[i], i < floats ? from[i] : 0.0f) << floats << ", " << i;
    });
}

// Reads nothing past the end, so the address there need not be memory.
TEST(Simt, AsyncCopyOfZeroBytesReadsNothing) {
  run_grid("copies", {1}, {1}, 16, [&] {
    SharedMemory shared;
    auto* to = shared.take<float>(4);
    cuda::copy_async(to, reinterpret_cast<const float*>(uintptr_t{16}), 0);
    cuda::commit_copies();
    cuda::wait_for_copies<0>();
    EXPECT_EQ(to[3], 0.0f);
  });
}

// A copy may arrive at any time after its issue: the old contents must not be read any more.
TEST(Simt, AsyncCopyPoisonsTargetUntilItArrives) {
  alignas(16) const float from[4] = {1, 2, 3, 4};
  run_grid("copies", {1}, {1}, 16, [&] {
    SharedMemory shared;
    auto* to = shared.take<float>(4);
    to[2] = 7;
    cuda::copy_async(to, from);
    EXPECT_TRUE(std::isnan(to[2]));
    cuda::commit_copies();
    cuda::wait_for_copies<0>();
  });
}

TEST(Simt, Exp2HasErrorOfGpu) {
  double worst = 0;
  for (float x = -125; x < 127; x += 0.37f) {
    const double exact = std::exp2(static_cast<double>(x));
    worst = std::max(worst, std::abs(cuda::exp2_approximately(x) / exact - 1));
  }
  EXPECT_GT(worst, 0x1p-22);
  EXPECT_LT(worst, 0x1p-21);
  EXPECT_EQ(cuda::exp2_approximately(-126.5f), 0.0f);
  EXPECT_EQ(cuda::exp2_approximately(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(cuda::exp2_approximately(NAN)));
}

using SimtDeathTest = ::testing::Test;

TEST(SimtDeathTest, BarrierMissedByThread) {
  EXPECT_DEATH(run_grid("some", {1}, {64}, 0,
                        [&] {
                          if (threadIdx.x != 13) __syncthreads();
                        }),
               "simt: kernel some: threads wait for a barrier");
}
TEST(SimtDeathTest, ExchangeMissedByLane) {
  EXPECT_DEATH(run_grid("some", {1}, {32}, 0,
                        [&] {
                          if (lane() != 13) (void)__shfl_sync(~0u, 1.0f, 0);
                        }),
               "wait for a barrier or an exchange");
}
TEST(SimtDeathTest, MaskWithoutCaller) {
  EXPECT_DEATH(run_grid("some", {1}, {32}, 0, [&] { __syncwarp(1u << (lane() + 1) % 32); }),
               "mask names lanes that do not exist");
}
TEST(SimtDeathTest, TooMuchSharedMemory) {
  EXPECT_DEATH(run_grid("some", {1}, {1}, 60, [&] { SharedMemory().take<float>(16); }),
               "more shared memory than it was launched with");
}
TEST(SimtDeathTest, AsyncCopyNeverWaitedFor) {
  alignas(16) static const float from[4] = {};
  EXPECT_DEATH(run_grid("some", {1}, {1}, 16,
                        [&] { cuda::copy_async(SharedMemory().take<float>(4), from); }),
               "asynchronous copies that it never waited for");
}
TEST(SimtDeathTest, AsyncCopyReadsMoreThanItWrites) {
  alignas(16) static const float from[8] = {};
  EXPECT_DEATH(run_grid("some", {1}, {1}, 32,
                        [&] { cuda::copy_async(SharedMemory().take<float>(8), from, 32); }),
               "cp.async: more bytes to read than to write");
}
TEST(SimtDeathTest, UnalignedAsyncCopyOfZeroBytes) {
  alignas(16) static const float from[4] = {};
  EXPECT_DEATH(run_grid("some", {1}, {1}, 32,
                        [&] { cuda::copy_async(SharedMemory().take<float>(8), from + 1, 0); }),
               "cp.async: an address is not 16-byte aligned");
}
TEST(SimtDeathTest, UnalignedTensorCoreLoad) {
  EXPECT_DEATH(run_grid("some", {1}, {32}, 1024,
                        [&] {
                          auto* tile = SharedMemory().take<uint16_t>(512);
                          (void)cuda::load_tiles(tile + lane() * 8 + 1);
                        }),
               "not 16-byte aligned");
}

#if defined(__SANITIZE_ADDRESS__)
TEST(SimtDeathTest, WritePastSharedMemoryPiece) {
  EXPECT_DEATH(reduce({.shift = 1}), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace simt
