// A task of low-rank updates in bf16 products with f32 sums, with the tiles and the packing of
// attention_bf16-inl.h. The same restriction on includes applies. x · down is rounded to bf16.
#pragma once

#include "kernels/host/attention_bf16-inl.h"
#include "kernels/host/low_rank.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")

namespace itif::kernels::host::bf16 {

// The scratch of a task (kLowRankScratchBytes).
struct LowRankScratch {
  uint16_t* down;   // packed [depth, ranks]
  uint16_t* up;     // packed [ranks, columns]
  uint16_t* rows;   // [16, depth]
  float* products;  // [16, columns]
  float* between;   // [rows, ranks], x · down
  uint16_t* rounded;

  explicit LowRankScratch(std::byte* base)
      : down(reinterpret_cast<uint16_t*>(base)),
        up(down + size_t{kLowRankDepth} * kLowRankRanks),
        rows(up + size_t{kLowRankRanks} * kLowRankColumns),
        products(reinterpret_cast<float*>(rows + kTileRows * kLowRankDepth)),
        between(products + kTileRows * kLowRankColumns),
        rounded(reinterpret_cast<uint16_t*>(between + size_t{kLowRankRows} * kLowRankRanks)) {}
};
static_assert(kLowRankColumns >= kLowRankRanks && kTileRows == 16);
static_assert(kLowRankRows % kTileRows == 0 && kLowRankRanks % 32 == 0);
static_assert(kLowRankDepth % 32 == 0 && kLowRankColumns % 32 == 0);

// between[row, ranks] = x · down, for ranks [first, first + ranks).
template <class Product>
void multiply_down(const AddLowRank& args, const LowRankTask& task, size_t first, size_t ranks,
                   const LowRankScratch& scratch, Product& product) {
  const size_t stride = round_up(ranks, kPanelColumns);
  const auto* x = static_cast<const uint16_t*>(args.x) + size_t{task.first_row} * args.k;
  const auto* down = static_cast<const uint16_t*>(task.module.down) + first;
  for (size_t depth = 0; depth < args.k; depth += kLowRankDepth) {
    const size_t count = std::min<size_t>(kLowRankDepth, args.k - depth);
    const size_t pairs = round_up(count, 32) / 2;
    pack_values(down + depth * task.module.rank, task.module.rank, count, ranks, pairs, false,
                scratch.down);
    for (size_t row = 0; row < task.num_rows; row += kTileRows) {
      const size_t rows = std::min<size_t>(kTileRows, task.num_rows - row);
      for (size_t r = 0; r < rows; ++r)
        for (size_t i = 0; i < 2 * pairs; i += 32)
          _mm512_storeu_si512(
              scratch.rows + r * 2 * pairs + i,
              load_row(x + (row + r) * args.k + depth + i, count > i ? count - i : 0));
      product.run({.a = scratch.rows,
                   .a_stride = 2 * pairs,
                   .b = scratch.down,
                   .panel_stride = pairs * kPanelPair,
                   .num_panels = stride / kPanelColumns,
                   .num_pairs = pairs,
                   .c = scratch.products,
                   .c_stride = stride,
                   .rows = rows});
      float* sums = scratch.between + row * stride;
      for (size_t i = 0; i < rows * stride; i += 16) {
        const __m512 more = _mm512_loadu_ps(scratch.products + i);
        _mm512_storeu_ps(sums + i,
                         depth == 0 ? more : _mm512_add_ps(_mm512_loadu_ps(sums + i), more));
      }
    }
  }
}

// out += between · up.
template <class Product>
void multiply_up(const AddLowRank& args, const LowRankTask& task, size_t first, size_t ranks,
                 const LowRankScratch& scratch, Product& product) {
  const LowRankModule& module = task.module;
  const size_t stride = round_up(ranks, kPanelColumns), pairs = round_up(ranks, 32) / 2;
  for (size_t row = 0; row < task.num_rows; ++row)
    for (size_t i = 0; i < 2 * pairs; i += 16) {
      const __m512 sum =
          i < stride ? _mm512_loadu_ps(scratch.between + row * stride + i) : _mm512_setzero_ps();
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(scratch.rounded + row * 2 * pairs + i),
                          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum)));
    }
  const auto* up = static_cast<const uint16_t*>(module.up) + first * task.num_columns;
  auto* out =
      static_cast<uint16_t*>(args.out) + size_t{task.first_row} * args.width + task.first_column;
  for (size_t column = 0; column < task.num_columns; column += kLowRankColumns) {
    const size_t count = std::min<size_t>(kLowRankColumns, task.num_columns - column);
    const size_t columns = round_up(count, kPanelColumns);
    pack_values(up + column, task.num_columns, ranks, count, pairs, false, scratch.up);
    for (size_t row = 0; row < task.num_rows; row += kTileRows) {
      const size_t rows = std::min<size_t>(kTileRows, task.num_rows - row);
      product.run({.a = scratch.rounded + row * 2 * pairs,
                   .a_stride = 2 * pairs,
                   .b = scratch.up,
                   .panel_stride = pairs * kPanelPair,
                   .num_panels = columns / kPanelColumns,
                   .num_pairs = pairs,
                   .c = scratch.products,
                   .c_stride = columns,
                   .rows = rows});
      for (size_t r = 0; r < rows; ++r)
        for (size_t i = 0; i < count; i += 16) {
          const auto mask = static_cast<__mmask16>((1u << std::min<size_t>(16, count - i)) - 1);
          uint16_t* at = out + (row + r) * args.width + column + i;
          const __m512i bits =
              _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at)), 16);
          const __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(bits),
                                           _mm512_loadu_ps(scratch.products + r * columns + i));
          _mm256_mask_storeu_epi16(at, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum)));
        }
    }
  }
}

template <class Product>
void run_low_rank(const AddLowRank& args, const LowRankTask& task, std::byte* base) {
  const LowRankScratch scratch(base);
  Product product;
  for (size_t first = 0; first < task.module.rank; first += kLowRankRanks) {
    const size_t ranks = std::min<size_t>(kLowRankRanks, task.module.rank - first);
    multiply_down(args, task, first, ranks, scratch, product);
    multiply_up(args, task, first, ranks, scratch, product);
  }
}

}  // namespace itif::kernels::host::bf16

#pragma GCC pop_options
