// The product of attention_bf16-inl.h on AMX tiles. `Tiles` are the eight tile registers, each of
// 16 rows of 64 bytes: the hardware's in attention_bf16_amx.cc, arrays in the tests, which check
// this code on CPUs without AMX.
//
//   Tiles::load<t>(address, stride_bytes), store<t>(…), zero<t>()
//   Tiles::multiply<c, a, b>()
//       c (16 × 16 f32) += a (16 rows of 16 pairs) · b (16 pairs of 16 columns)
#pragma once

#include "kernels/host/attention_bf16-inl.h"

// Lets the hardware's operations be inlined. The compiler generates no other tile code.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,amx-tile,amx-bf16")

namespace itif::kernels::host::bf16 {

// Four panels at a time: four independent sums (tiles 0–3) hide the latency of a product. Tile 4
// holds the rows; the panels pass through tiles 5–7.
template <class Tiles>
struct TiledProduct {
  Tiles tiles;  // configured during its lifetime

  void run(const TileProduct& p) {
    size_t panel = 0;
    for (; panel + 4 <= p.num_panels; panel += 4) multiply<4>(p, panel);
    for (; panel + 2 <= p.num_panels; panel += 2) multiply<2>(p, panel);
    if (panel < p.num_panels) multiply<1>(p, panel);
  }

 private:
  template <size_t kPanels>
  void multiply(const TileProduct& p, size_t panel) {
    constexpr size_t kBlockPairs = 16, kRowBytes = 64;
    tiles.template zero<0>();
    if constexpr (kPanels > 1) tiles.template zero<1>();
    if constexpr (kPanels > 2) tiles.template zero<2>();
    if constexpr (kPanels > 3) tiles.template zero<3>();
    for (size_t pair = 0; pair < p.num_pairs; pair += kBlockPairs) {
      const uint16_t* b = p.b + panel * p.panel_stride + pair * kPanelPair;
      tiles.template load<4>(p.a + 2 * pair, p.a_stride * sizeof(uint16_t));
      tiles.template load<5>(b, kRowBytes);
      tiles.template multiply<0, 4, 5>();
      if constexpr (kPanels > 1) {
        tiles.template load<6>(b + p.panel_stride, kRowBytes);
        tiles.template multiply<1, 4, 6>();
      }
      if constexpr (kPanels > 2) {
        tiles.template load<7>(b + 2 * p.panel_stride, kRowBytes);
        tiles.template multiply<2, 4, 7>();
      }
      if constexpr (kPanels > 3) {
        tiles.template load<5>(b + 3 * p.panel_stride, kRowBytes);
        tiles.template multiply<3, 4, 5>();
      }
    }
    float* c = p.c + panel * kPanelColumns;
    const size_t c_bytes = p.c_stride * sizeof(float);
    tiles.template store<0>(c, c_bytes);
    if constexpr (kPanels > 1) tiles.template store<1>(c + kPanelColumns, c_bytes);
    if constexpr (kPanels > 2) tiles.template store<2>(c + 2 * kPanelColumns, c_bytes);
    if constexpr (kPanels > 3) tiles.template store<3>(c + 3 * kPanelColumns, c_bytes);
  }
};

}  // namespace itif::kernels::host::bf16

#pragma GCC pop_options
