// One product of a batched GEMM in bf16 products with f32 sums, with the tiles and the packing of
// attention_bf16-inl.h. The same restriction on includes applies.
#pragma once

#include "kernels/host/attention_bf16-inl.h"
#include "kernels/host/batched_gemm.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")

namespace itif::kernels::host::bf16 {

template <class Product>
void run_batched_gemm(const BatchedGemm& args, const BatchedGemmTask& task, std::byte* scratch) {
  const size_t n = task.n, k = task.k;
  const size_t pairs = round_up(k, 32) / 2;
  const size_t columns = round_up(n, args.is_b_transposed ? kPanelColumns : 32);
  auto* packed = reinterpret_cast<uint16_t*>(scratch);
  uint16_t* rows = packed + columns * 2 * pairs;
  auto* sums = reinterpret_cast<float*>(rows + kTileRows * 2 * pairs);
  const auto* b = static_cast<const uint16_t*>(args.b) + task.b;
  if (args.is_b_transposed)
    pack_keys(b, k, n, k, pairs, packed);
  else
    pack_values(b, n, k, n, pairs, false, packed);
  const auto* a = static_cast<const uint16_t*>(args.a) + task.a;
  auto* out = static_cast<uint16_t*>(args.out) + task.out;
  Product product;
  for (size_t row = task.m_begin; row < task.m_end; row += kTileRows) {
    const size_t count = std::min<size_t>(kTileRows, task.m_end - row);
    for (size_t r = 0; r < count; ++r)
      for (size_t i = 0; i < 2 * pairs; i += 32)
        _mm512_storeu_si512(rows + r * 2 * pairs + i, load_row(a + (row + r) * k + i, k - i));
    product.run({.a = rows,
                 .a_stride = 2 * pairs,
                 .b = packed,
                 .panel_stride = pairs * kPanelPair,
                 .num_panels = columns / kPanelColumns,
                 .num_pairs = pairs,
                 .c = sums,
                 .c_stride = columns,
                 .rows = count});
    for (size_t r = 0; r < count; ++r)
      for (size_t i = 0; i < n; i += 16) {
        const auto rounded =
            reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(sums + r * columns + i)));
        _mm256_mask_storeu_epi16(out + (row + r) * n + i,
                                 static_cast<__mmask16>((1u << std::min<size_t>(16, n - i)) - 1),
                                 rounded);
      }
  }
}

}  // namespace itif::kernels::host::bf16

#pragma GCC pop_options
