// The AMX kernels on emulated tiles, on any CPU with AVX512-BF16. They check the iteration over
// tiles, panels and padding. On CPUs with AMX the suite runs the same kernels on the hardware's
// tiles.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "kernels/host/attention_bf16.h"
#include "kernels/host/attention_bf16_amx-inl.h"
#include "kernels/host/batched_gemm_bf16-inl.h"
#include "kernels/host/low_rank_bf16-inl.h"
#include "reference.h"
#include "tensor/dtype.h"

namespace itif::kernels {
namespace {

// Tiles like the hardware's: 16 rows of 64 bytes, strided loads and stores, even elements of a pair
// first.
struct EmulatedTiles {
  uint32_t tile[8][16][16];

  template <int kTile>
  void zero() {
    std::memset(tile[kTile], 0, sizeof(tile[kTile]));
  }
  template <int kTile>
  void load(const void* address, size_t stride_bytes) {
    for (size_t row = 0; row < 16; ++row)
      std::memcpy(tile[kTile][row], static_cast<const char*>(address) + row * stride_bytes, 64);
  }
  template <int kTile>
  void store(void* address, size_t stride_bytes) {
    for (size_t row = 0; row < 16; ++row)
      std::memcpy(static_cast<char*>(address) + row * stride_bytes, tile[kTile][row], 64);
  }
  template <int kSum, int kRows, int kColumns>
  void multiply() {
    const auto half = [](uint32_t pair, bool upper) {
      return bf16_to_f32(static_cast<uint16_t>(upper ? pair >> 16 : pair));
    };
    for (size_t row = 0; row < 16; ++row)
      for (size_t column = 0; column < 16; ++column) {
        auto sum = std::bit_cast<float>(tile[kSum][row][column]);
        for (size_t k = 0; k < 16; ++k) {
          const uint32_t a = tile[kRows][row][k], b = tile[kColumns][k][column];
          sum += half(a, false) * half(b, false);
          sum += half(a, true) * half(b, true);
        }
        tile[kSum][row][column] = std::bit_cast<uint32_t>(sum);
      }
  }
};

TEST(AmxAttention, MatchesTheReferenceOnEmulatedTiles) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  Random random(5);
  for (const uint32_t head_size : {1u, 12u, 20u, 32u, 33u, 64u, 80u, 128u, 256u}) {
    for (const uint32_t length : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 48u, 65u, 100u}) {
      constexpr uint32_t kHeads = 2, kFirstRow = 3;
      const uint32_t hidden = kHeads * head_size, rows = kFirstRow + length + 2;
      std::vector<uint16_t> qkv(rows * 3 * hidden), out(rows * hidden, 0x7fc0);
      std::vector<float> wide(qkv.size());
      for (size_t i = 0; i < qkv.size(); ++i) {
        qkv[i] = f32_to_bf16(static_cast<float>(random.normal()));
        wide[i] = bf16_to_f32(qkv[i]);
      }
      const uint32_t offsets[] = {kFirstRow, kFirstRow + length};
      const SegmentRows segments[] = {{kFirstRow, length}};
      const float scale = 1.0f / std::sqrt(static_cast<float>(head_size));
      const Attention args{.qkv = qkv.data(),
                           .out = out.data(),
                           .segments = segments,
                           .num_heads = kHeads,
                           .head_size = head_size,
                           .scale = scale};
      // Scratch keeps data of the last batch: its NaNs must not spread.
      const size_t bytes = host::attention_bf16_scratch_bytes(length);
      std::vector<uint16_t> scratch(bytes / 2 + 32, 0x7fc0);
      for (uint32_t head = 0; head < kHeads; ++head)
        host::bf16::run_task<host::bf16::TiledProduct<EmulatedTiles>>(
            args,
            {.first_row = kFirstRow,
             .length = length,
             .head = head,
             .query_begin = 0,
             .query_end = length},
            reinterpret_cast<std::byte*>(scratch.data()));
      const auto expected = reference::attention(wide, offsets, kHeads, head_size, scale);
      for (size_t i = kFirstRow * hidden; i < (kFirstRow + length) * hidden; ++i)
        ASSERT_NEAR(bf16_to_f32(out[i]), expected[i], 0.01 * std::max(1.0, std::abs(expected[i])))
            << "head size " << head_size << ", length " << length << ", element " << i;
      for (const size_t row : {size_t{kFirstRow} - 1, size_t{kFirstRow} + length})
        for (size_t i = 0; i < hidden; ++i) ASSERT_EQ(out[row * hidden + i], 0x7fc0);
    }
  }
}

TEST(AmxBatchedGemm, MatchesTheReferenceOnEmulatedTiles) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  Random random(6);
  for (const bool is_b_transposed : {true, false})
    for (const auto& [m, n, k] : {std::array{1u, 1u, 1u},
                                  {17u, 33u, 20u},
                                  {16u, 64u, 64u},
                                  {35u, 7u, 100u},
                                  {5u, 70u, 31u}}) {
      std::vector<uint16_t> a(m * k), b(n * k), out(m * n + 1, 0x7fc0);
      for (uint16_t& v : a) v = f32_to_bf16(static_cast<float>(random.normal()));
      for (uint16_t& v : b) v = f32_to_bf16(static_cast<float>(random.normal()));
      // Scratch keeps data of the last product: its NaNs must not spread.
      std::vector<uint16_t> scratch(1 << 16, 0x7fc0);
      host::bf16::run_batched_gemm<host::bf16::TiledProduct<EmulatedTiles>>(
          {.a = a.data(),
           .b = b.data(),
           .is_b_transposed = is_b_transposed,
           .out = out.data(),
           .batches = {}},
          {.m_begin = 0, .m_end = m, .n = n, .k = k}, reinterpret_cast<std::byte*>(scratch.data()));
      for (size_t r = 0; r < m; ++r)
        for (size_t c = 0; c < n; ++c) {
          double sum = 0;
          for (size_t i = 0; i < k; ++i)
            sum += double{bf16_to_f32(a[r * k + i])} *
                   bf16_to_f32(is_b_transposed ? b[c * k + i] : b[i * n + c]);
          ASSERT_NEAR(bf16_to_f32(out[r * n + c]), sum, 0.005 * std::max(1.0, std::abs(sum)))
              << m << " x " << n << " x " << k << ", element " << r << ", " << c;
        }
      ASSERT_EQ(out[m * n], 0x7fc0);
    }
}

TEST(AmxLowRank, MatchesTheReferenceOnEmulatedTiles) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  Random random(7);
  const auto values = [&](size_t count, double deviation) {
    std::vector<uint16_t> bits(count);
    for (uint16_t& v : bits) v = f32_to_bf16(static_cast<float>(random.normal() * deviation));
    return bits;
  };
  for (const auto& [rows, k, rank, columns] : {std::array{1u, 1u, 8u, 1u},
                                               {17u, 40u, 8u, 33u},
                                               {64u, 1100u, 24u, 300u},
                                               {5u, 64u, 136u, 48u}}) {
    constexpr uint32_t kFirstRow = 1, kFirstColumn = 3;
    const size_t width = kFirstColumn + columns + 1;
    const auto x = values((kFirstRow + rows) * k, 1);
    const auto down = values(k * rank, 1 / std::sqrt(k)), up = values(rank * columns, 0.3);
    const auto before = values((kFirstRow + rows + 1) * width, 1);
    auto out = before;
    // Scratch keeps data of the last task: its NaNs must not spread.
    std::vector<uint16_t> scratch(host::kLowRankScratchBytes / 2, 0x7fc0);
    host::bf16::run_low_rank<host::bf16::TiledProduct<EmulatedTiles>>(
        {.x = x.data(), .out = out.data(), .k = k, .width = static_cast<uint32_t>(width)},
        {.module = {.down = down.data(), .up = up.data(), .rank = rank},
         .first_column = kFirstColumn,
         .num_columns = columns,
         .first_row = kFirstRow,
         .num_rows = rows},
        reinterpret_cast<std::byte*>(scratch.data()));
    for (size_t row = 0; row < kFirstRow + rows + 1; ++row)
      for (size_t column = 0; column < width; ++column) {
        const size_t at = row * width + column;
        const bool is_inside = row >= kFirstRow && row < kFirstRow + rows &&
                               column >= kFirstColumn && column < kFirstColumn + columns;
        if (!is_inside) {
          ASSERT_EQ(out[at], before[at]) << "row " << row << ", column " << column;
          continue;
        }
        double sum = bf16_to_f32(before[at]);
        for (size_t j = 0; j < rank; ++j) {
          double between = 0;
          for (size_t i = 0; i < k; ++i)
            between += double{bf16_to_f32(x[row * k + i])} * bf16_to_f32(down[i * rank + j]);
          sum += between * bf16_to_f32(up[j * columns + column - kFirstColumn]);
        }
        ASSERT_NEAR(bf16_to_f32(out[at]), sum, 0.012 * std::max(2.0, std::abs(sum)))
            << rows << " rows, " << k << " to " << rank << " to " << columns << ", row " << row
            << ", column " << column;
      }
  }
}

}  // namespace
}  // namespace itif::kernels
