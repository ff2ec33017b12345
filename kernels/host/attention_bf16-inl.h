// One head of one matrix of scores (attention_tasks.h) in bf16 products with f32 sums. The files
// that include this (attention_bf16_avx512.cc, attention_bf16_amx.cc) supply Product, which
// multiplies a tile of rows by a packed matrix.
//
// Scores (Q · Kᵀ) and results (P · V) are the same product: rows of bf16 pairs times a matrix in
// panels of 16 columns, [panel][pairs][16][2]. VDPBF16PS and TDPBF16PS both take this layout. K's
// columns are keys and its pairs run along the head; V's columns are the head's and its pairs are
// keys. Padding is zero, so that products need no edge cases. Probabilities are rounded to bf16;
// their sums are of the unrounded ones.
//
// Everything here is compiled for AVX512-BF16: include it only in files that run on CPUs that have
// it.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/host/attention_tasks.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")

namespace itif::kernels::host::bf16 {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kPanelColumns = 16;
inline constexpr size_t kPanelPair = 2 * kPanelColumns;  // elements of a panel for one pair

constexpr size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The operands of Product::run(): c[rows][16·num_panels] = a[rows][2·num_pairs] · b. num_pairs is a
// multiple of 16. A product may write all kTileRows rows of c and read as many of a.
struct TileProduct {
  const uint16_t* a = nullptr;
  size_t a_stride = 0;  // elements
  const uint16_t* b = nullptr;
  size_t panel_stride = 0;  // elements
  size_t num_panels = 0;
  size_t num_pairs = 0;
  float* c = nullptr;
  size_t c_stride = 0;  // elements
  size_t rows = 0;
};

// Loads the first min(n, 32) elements, then zeros.
inline __m512i load_row(const uint16_t* p, size_t n) {
  if (n >= 32) return _mm512_loadu_si512(p);
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((uint64_t{1} << n) - 1), p);
}

// out[i] lane j = in[j] lane i, of 16 × 16 pairs.
inline void transpose_16x16(__m512i* r) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
  }
}

// Packs K's rows [keys][head_size] into panels of 16 keys, pairs along the head.
inline void pack_keys(const uint16_t* rows, size_t row_stride, size_t keys, size_t head_size,
                      size_t num_pairs, uint16_t* packed) {
  for (size_t key = 0; key < round_up(keys, kPanelColumns); key += kPanelColumns) {
    for (size_t pair = 0; pair < num_pairs; pair += 16) {
      __m512i block[16];
#pragma GCC unroll 16
      for (size_t i = 0; i < 16; ++i)
        block[i] = key + i < keys ? load_row(rows + (key + i) * row_stride + 2 * pair,
                                             head_size > 2 * pair ? head_size - 2 * pair : 0)
                                  : _mm512_setzero_si512();
      transpose_16x16(block);
      uint16_t* to = packed + key * 2 * num_pairs + pair * kPanelPair;
#pragma GCC unroll 16
      for (size_t i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * kPanelPair, block[i]);
    }
  }
}

// Replaces infinities and NaNs by the largest number, as MakeFinite() of attention_f32.cc does.
inline __m512i make_finite(__m512i values) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  const __mmask32 is_not_finite =
      _mm512_cmpeq_epi16_mask(_mm512_and_si512(values, exponent), exponent);
  return _mm512_mask_mov_epi16(values, is_not_finite, _mm512_set1_epi16(0x7f7f));
}

// Packs V's rows [keys][head_size] into panels of 16 of the head's columns, pairs of keys.
// `are_finite`: makes them so.
inline void pack_values(const uint16_t* rows, size_t row_stride, size_t keys, size_t head_size,
                        size_t num_pairs, bool are_finite, uint16_t* packed) {
  alignas(64) static constexpr uint16_t kLow[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                    37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                    11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  const size_t panel_stride = num_pairs * kPanelPair;
  for (size_t pair = 0; pair < num_pairs; ++pair) {
    const uint16_t* row = rows + 2 * pair * row_stride;
    for (size_t column = 0; column < head_size; column += 32) {
      const size_t n = head_size - column;
      __m512i even = 2 * pair < keys ? load_row(row + column, n) : _mm512_setzero_si512();
      __m512i odd =
          2 * pair + 1 < keys ? load_row(row + row_stride + column, n) : _mm512_setzero_si512();
      if (are_finite) {
        even = make_finite(even);
        odd = make_finite(odd);
      }
      uint16_t* to = packed + column / kPanelColumns * panel_stride + pair * kPanelPair;
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(even, low, odd));
      _mm512_storeu_si512(to + panel_stride, _mm512_permutex2var_epi16(even, high, odd));
    }
  }
}

// 2^x for x ≤ 0, relative error < 2e-5 (bf16 keeps 4e-3): x = n + f, |f| ≤ ½, a Taylor polynomial.
inline __m512 exp2_of(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(9.6181291e-3f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

// Turns the scores of one query into unnormalised probabilities in bf16, zeros up to `stride` (a
// multiple of 32). Returns 1 / their sum. `scale` includes log2(e).
inline float softmax_row(const float* scores, size_t keys, size_t stride, float scale,
                         uint16_t* probabilities) {
  const size_t whole = keys / 16 * 16;
  const auto tail = static_cast<__mmask16>((1u << (keys - whole)) - 1);
  const __m512 lowest = _mm512_set1_ps(-3e38f);
  __m512 largest = tail ? _mm512_mask_loadu_ps(lowest, tail, scores + whole) : lowest;
  for (size_t j = 0; j < whole; j += 16)
    largest = _mm512_max_ps(largest, _mm512_loadu_ps(scores + j));
  const __m512 factor = _mm512_set1_ps(scale);
  const __m512 offset = _mm512_set1_ps(-_mm512_reduce_max_ps(largest) * scale);
  __m512 sum = _mm512_setzero_ps();
  const auto store = [&](size_t j, __m512 p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(probabilities + j),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(p)));
  };
  size_t j = 0;
  for (; j < whole; j += 16) {
    const __m512 p = exp2_of(_mm512_fmadd_ps(_mm512_loadu_ps(scores + j), factor, offset));
    sum = _mm512_add_ps(sum, p);
    store(j, p);
  }
  if (tail) {
    const __m512 p = _mm512_maskz_mov_ps(
        tail, exp2_of(_mm512_fmadd_ps(_mm512_maskz_loadu_ps(tail, scores + j), factor, offset)));
    sum = _mm512_add_ps(sum, p);
    store(j, p);
    j += 16;
  }
  for (; j < stride; j += 16) store(j, _mm512_setzero_ps());
  return 1.0f / _mm512_reduce_add_ps(sum);
}

template <class Product>
void run_task(const Attention& args, const AttentionTask& task, std::byte* scratch) {
  constexpr float kLog2E = 1.44269504f;
  const size_t head_size = args.head_size;
  const size_t hidden = size_t{args.num_heads} * head_size;
  const size_t row_stride = 3 * hidden;
  const auto* q_rows =
      static_cast<const uint16_t*>(args.qkv) + task.first_row * row_stride + task.head * head_size;
  const size_t head_pairs = round_up(head_size, 32) / 2;
  const size_t key_panels = round_up(task.length, kPanelColumns) / kPanelColumns;
  const size_t stride = round_up(task.length, 32);  // of scores and probabilities
  const size_t key_pairs = stride / 2;

  auto* keys = reinterpret_cast<uint16_t*>(scratch);
  uint16_t* values = keys + stride * 2 * head_pairs;
  uint16_t* queries = values + stride * 2 * head_pairs;
  uint16_t* probabilities = queries + kTileRows * 2 * head_pairs;
  auto* scores = reinterpret_cast<float*>(probabilities + kTileRows * stride);
  float* results = scores + kTileRows * stride;

  pack_keys(q_rows + hidden, row_stride, task.length, head_size, head_pairs, keys);
  AttentionMask mask(args, task);
  pack_values(q_rows + 2 * hidden, row_stride, task.length, head_size, key_pairs, mask.is_shared(),
              values);

  Product product;
  for (size_t q = task.query_begin; q < task.query_end; q += kTileRows) {
    const size_t rows = std::min<size_t>(kTileRows, task.query_end - q);
    for (size_t r = 0; r < rows; ++r)
      for (size_t i = 0; i < 2 * head_pairs; i += 32)
        _mm512_storeu_si512(queries + r * 2 * head_pairs + i,
                            load_row(q_rows + (q + r) * row_stride + i, head_size - i));
    product.run({.a = queries,
                 .a_stride = 2 * head_pairs,
                 .b = keys,
                 .panel_stride = head_pairs * kPanelPair,
                 .num_panels = key_panels,
                 .num_pairs = head_pairs,
                 .c = scores,
                 .c_stride = stride,
                 .rows = rows});
    float inverse[kTileRows];
    AttentionMask::Keys query_keys[kTileRows];
    for (size_t r = 0; r < rows; ++r) {
      query_keys[r] = mask.keys_of(q + r);
      mask.apply(query_keys[r], scores + r * stride);
      inverse[r] = softmax_row(scores + r * stride, task.length, stride, args.scale * kLog2E,
                               probabilities + r * stride);
    }
    product.run({.a = probabilities,
                 .a_stride = stride,
                 .b = values,
                 .panel_stride = key_pairs * kPanelPair,
                 .num_panels = 2 * head_pairs / kPanelColumns,
                 .num_pairs = key_pairs,
                 .c = results,
                 .c_stride = 2 * head_pairs,
                 .rows = rows});
    for (size_t r = 0; r < rows; ++r) {
      if (query_keys[r].empty()) continue;  // padding
      auto* to = static_cast<uint16_t*>(args.out) + (task.first_row + q + r) * hidden +
                 task.head * head_size;
      const float* from = results + r * 2 * head_pairs;
      const __m512 factor = _mm512_set1_ps(inverse[r]);
      for (size_t i = 0; i < head_size; i += 16) {
        const size_t n = std::min<size_t>(16, head_size - i);
        const auto rounded = reinterpret_cast<__m256i>(
            _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_loadu_ps(from + i), factor)));
        _mm256_mask_storeu_epi16(to + i, static_cast<__mmask16>((1u << n) - 1), rounded);
      }
    }
  }
}

}  // namespace itif::kernels::host::bf16

#pragma GCC pop_options
