// The AMX tile registers for attention_bf16_amx-inl.h.
#include "kernels/host/attention_bf16.h"
#include "kernels/host/attention_bf16_amx-inl.h"
#include "kernels/host/batched_gemm_bf16-inl.h"
#include "kernels/host/low_rank_bf16-inl.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,amx-tile,amx-bf16")

namespace itif::kernels::host {
namespace {

// All tiles have the largest shape. Source: Intel SDM, volume 1, table 18-1 (palette 1).
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
// Static, because GCC's intrinsic tells the compiler about the first eight bytes only.
constexpr TileConfig kTileConfig;

// The intrinsics take register numbers as literals only.
#define ITIF_EACH_TILE(t, operation) \
  if constexpr (t == 0)              \
    operation(0);                    \
  else if constexpr (t == 1)         \
    operation(1);                    \
  else if constexpr (t == 2)         \
    operation(2);                    \
  else if constexpr (t == 3)         \
    operation(3);                    \
  else if constexpr (t == 4)         \
    operation(4);                    \
  else if constexpr (t == 5)         \
    operation(5);                    \
  else if constexpr (t == 6)         \
    operation(6);                    \
  else                               \
    operation(7)

struct HardwareTiles {
  HardwareTiles() { _tile_loadconfig(&kTileConfig); }
  ~HardwareTiles() { _tile_release(); }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;

  template <int kTile>
  void zero() {
#define ITIF_ZERO(t) _tile_zero(t)
    ITIF_EACH_TILE(kTile, ITIF_ZERO);
#undef ITIF_ZERO
  }
  template <int kTile>
  void load(const void* address, size_t stride_bytes) {
    // GCC's intrinsic does not declare that it reads memory: stores must not move past it.
    __asm__ volatile("" ::: "memory");
#define ITIF_LOAD(t) _tile_loadd(t, address, stride_bytes)
    ITIF_EACH_TILE(kTile, ITIF_LOAD);
#undef ITIF_LOAD
  }
  template <int kTile>
  void store(void* address, size_t stride_bytes) {
#define ITIF_STORE(t) _tile_stored(t, address, stride_bytes)
    ITIF_EACH_TILE(kTile, ITIF_STORE);
#undef ITIF_STORE
  }
  template <int kSum, int kRows, int kColumns>
  void multiply() {
    static_assert(kRows == 4);
    if constexpr (kSum == 0 && kColumns == 5)
      _tile_dpbf16ps(0, 4, 5);
    else if constexpr (kSum == 1 && kColumns == 6)
      _tile_dpbf16ps(1, 4, 6);
    else if constexpr (kSum == 2 && kColumns == 7)
      _tile_dpbf16ps(2, 4, 7);
    else if constexpr (kSum == 3 && kColumns == 5)
      _tile_dpbf16ps(3, 4, 5);
    else
      static_assert(kSum < 0, "the product that TiledProduct does not use");
  }
};
#undef ITIF_EACH_TILE

}  // namespace

AttentionTaskFunction attention_amx_bf16_task() {
  return bf16::run_task<bf16::TiledProduct<HardwareTiles>>;
}
BatchedGemmFunction batched_gemm_amx_bf16_task() {
  return bf16::run_batched_gemm<bf16::TiledProduct<HardwareTiles>>;
}
LowRankFunction low_rank_amx_bf16_task() {
  return bf16::run_low_rank<bf16::TiledProduct<HardwareTiles>>;
}

}  // namespace itif::kernels::host

#pragma GCC pop_options
