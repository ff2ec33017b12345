// The product of attention_bf16-inl.h and batched_gemm_bf16-inl.h by VDPBF16PS. A tile of six rows
// and four panels accumulates in 24 registers; the pairs of a row are broadcast.
#include "kernels/host/attention_bf16-inl.h"
#include "kernels/host/attention_bf16.h"
#include "kernels/host/batched_gemm_bf16-inl.h"
#include "kernels/host/low_rank_bf16-inl.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")

namespace itif::kernels::host {
namespace {

using bf16::kPanelColumns;
using bf16::kPanelPair;
using bf16::TileProduct;

inline __m512bh broadcast_pair(const uint16_t* pair) {
  int bits;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

template <size_t kRows, size_t kPanels>
inline void multiply(const TileProduct& p, size_t row, size_t panel) {
  __m512 sums[kRows][kPanels];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (size_t i = 0; i < kPanels; ++i) sums[r][i] = _mm512_setzero_ps();
  const uint16_t* a = p.a + row * p.a_stride;
  const uint16_t* b = p.b + panel * p.panel_stride;
  for (size_t pair = 0; pair < p.num_pairs; ++pair) {
    __m512bh columns[kPanels];
#pragma GCC unroll 4
    for (size_t i = 0; i < kPanels; ++i)
      columns[i] = reinterpret_cast<__m512bh>(
          _mm512_loadu_si512(b + i * p.panel_stride + pair * kPanelPair));
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const __m512bh value = broadcast_pair(a + r * p.a_stride + 2 * pair);
#pragma GCC unroll 4
      for (size_t i = 0; i < kPanels; ++i)
        sums[r][i] = _mm512_dpbf16_ps(sums[r][i], value, columns[i]);
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (size_t i = 0; i < kPanels; ++i)
      _mm512_storeu_ps(p.c + (row + r) * p.c_stride + (panel + i) * kPanelColumns, sums[r][i]);
}

template <size_t kRows>
inline void multiply_rows(const TileProduct& p, size_t row) {
  size_t panel = 0;
  for (; panel + 4 <= p.num_panels; panel += 4) multiply<kRows, 4>(p, row, panel);
  for (; panel + 2 <= p.num_panels; panel += 2) multiply<kRows, 2>(p, row, panel);
  if (panel < p.num_panels) multiply<kRows, 1>(p, row, panel);
}

struct Avx512Product {
  void run(const TileProduct& p) const {
    size_t row = 0;
    for (; row + 6 <= p.rows; row += 6) multiply_rows<6>(p, row);
    switch (p.rows - row) {
      case 5: return multiply_rows<5>(p, row);
      case 4: return multiply_rows<4>(p, row);
      case 3: return multiply_rows<3>(p, row);
      case 2: return multiply_rows<2>(p, row);
      case 1: return multiply_rows<1>(p, row);
      default: return;
    }
  }
};

}  // namespace

AttentionTaskFunction attention_avx512_bf16_task() {
  return bf16::run_task<Avx512Product>;
}
BatchedGemmFunction batched_gemm_avx512_bf16_task() {
  return bf16::run_batched_gemm<Avx512Product>;
}
LowRankFunction low_rank_avx512_bf16_task() {
  return bf16::run_low_rank<Avx512Product>;
}

}  // namespace itif::kernels::host

#pragma GCC pop_options

namespace itif::kernels::host {

size_t attention_bf16_scratch_bytes(uint32_t max_tokens) {
  const size_t keys = bf16::round_up(max_tokens, 32);
  const size_t packed = 2 * keys * kMaxHeadSize * sizeof(uint16_t);
  const size_t tile = bf16::kTileRows * (kMaxHeadSize + keys) * (sizeof(uint16_t) + sizeof(float));
  return packed + tile;
}

}  // namespace itif::kernels::host
