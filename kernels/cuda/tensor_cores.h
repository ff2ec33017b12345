// Products of small tiles on tensor cores (PTX: mma.sync m16n8k16), loads of tiles from shared
// memory into the layout of these products (ldmatrix), and asynchronous copies to shared memory
// (cp.async).
//
// A lane l holds these values of a fragment (g = l / 4, t = l % 4).
//   a [16, 16]     rows g and g + 8, columns 2t, 2t + 1, 2t + 8, 2t + 9
//   b [16, 8]      column g, rows 2t, 2t + 1, 2t + 8, 2t + 9
//   sums [16, 8]   rows g (values 0, 1) and g + 8 (values 2, 3), columns 2t, 2t + 1
//
// (tests/simt has a header of this name for kernels on the CPU.)
#pragma once

#include <cstdint>

#include "kernels/cuda/number.h"

namespace itif::kernels::cuda {

struct FragmentA {
  uint32_t parts[4];  // (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), two values each
};
struct FragmentB {
  uint32_t parts[2];  // (2t, g), (2t + 8, g)
};
struct Sums {
  float values[4];
};
// Four tiles of 8 × 8. A lane holds row g, columns 2t and 2t + 1 of each; transposed: rows 2t and
// 2t + 1, column g.
struct FourTiles {
  uint32_t parts[4];
};

// sums += a · b. All lanes of the warp must call it.
__device__ inline void multiply_add(Sums& sums, const FragmentA& a, const FragmentB& b, Bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])
      : "r"(a.parts[0]), "r"(a.parts[1]), "r"(a.parts[2]), "r"(a.parts[3]), "r"(b.parts[0]),
        "r"(b.parts[1]));
}
__device__ inline void multiply_add(Sums& sums, const FragmentA& a, const FragmentB& b, Half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])
      : "r"(a.parts[0]), "r"(a.parts[1]), "r"(a.parts[2]), "r"(a.parts[3]), "r"(b.parts[0]),
        "r"(b.parts[1]));
}

// Lane l passes the address of row l % 8 of tile l / 8, in shared memory, 16-byte aligned. All
// lanes of the warp must call it.
__device__ inline FourTiles load_tiles(const void* row) {
  FourTiles tiles;
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(tiles.parts[0]), "=r"(tiles.parts[1]), "=r"(tiles.parts[2]),
                 "=r"(tiles.parts[3])
               : "r"(at));
  return tiles;
}
__device__ inline FourTiles load_tiles_transposed(const void* row) {
  FourTiles tiles;
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(tiles.parts[0]), "=r"(tiles.parts[1]), "=r"(tiles.parts[2]),
                 "=r"(tiles.parts[3])
               : "r"(at));
  return tiles;
}

// Starts copying 16 bytes: the first `bytes` of those at `global`, then zeros. Both addresses must
// be 16-byte aligned, even if bytes is 0. They have arrived after wait_for_copies().
__device__ inline void copy_async(void* shared, const void* global, uint32_t bytes = 16) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes));
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;");
}
// Waits until all but the last kLeft groups that this thread committed have arrived. Copies of
// other threads also need a barrier afterwards.
template <int kLeft>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

}  // namespace itif::kernels::cuda
