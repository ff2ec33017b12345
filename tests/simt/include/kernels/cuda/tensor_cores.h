// Replaces the header of this name in kernels/cuda: the same fragments, multiplied by plain loops.
// The lanes hold and exchange values as PTX documents, so that a wrong layout in a kernel gives
// wrong results here, too.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/number.h"
#include "simt.h"

namespace itif::kernels::cuda {

struct FragmentA {
  uint32_t parts[4];
};
struct FragmentB {
  uint32_t parts[2];
};
struct Sums {
  float values[4];
};
struct FourTiles {
  uint32_t parts[4];
};

namespace on_simt {

inline constexpr uint32_t kAll = 0xFFFFFFFFu;

// Returns the lower or upper value of a pair.
template <class T>
float half_of(uint32_t pair, uint32_t upper) {
  const auto bits = static_cast<uint16_t>(upper ? pair >> 16 : pair);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return to_float(value);
}

template <class T>
void multiply_add(Sums& sums, const FragmentA& a, const FragmentB& b) {
  struct Both {
    FragmentA a;
    FragmentB b;
  };
  const simt::Exchanged all = simt::exchange(kAll, Both{a, b});
  const uint32_t g = simt::lane() / 4, t = simt::lane() % 4;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = g + i / 2 * 8, column = 2 * t + i % 2;
    for (uint32_t k = 0; k < 16; ++k) {
      const auto of_a = all.of<Both>(row % 8 * 4 + k % 8 / 2).a.parts[row / 8 + k / 8 * 2];
      const auto of_b = all.of<Both>(column * 4 + k % 8 / 2).b.parts[k / 8];
      sums.values[i] += half_of<T>(of_a, k % 2) * half_of<T>(of_b, k % 2);
    }
  }
}

inline FourTiles load(const void* row, bool is_transposed) {
  // The row's values at this moment: no thread may write them before all have read.
  struct Row {
    uint16_t values[8];
  } mine;
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
    simt::fail("ldmatrix: a row is not 16-byte aligned");
  std::memcpy(&mine, row, sizeof mine);
  const simt::Exchanged rows = simt::exchange(kAll, mine);
  const uint32_t g = simt::lane() / 4, t = simt::lane() % 4;
  FourTiles tiles;
  for (uint32_t tile = 0; tile < 4; ++tile) {
    const auto value = [&](uint32_t r, uint32_t c) {
      return uint32_t{rows.of<Row>(tile * 8 + r).values[c]};
    };
    tiles.parts[tile] = is_transposed ? value(2 * t, g) | value(2 * t + 1, g) << 16
                                      : value(g, 2 * t) | value(g, 2 * t + 1) << 16;
  }
  return tiles;
}

}  // namespace on_simt

inline void multiply_add(Sums& sums, const FragmentA& a, const FragmentB& b, Bf16) {
  on_simt::multiply_add<Bf16>(sums, a, b);
}
inline void multiply_add(Sums& sums, const FragmentA& a, const FragmentB& b, Half) {
  on_simt::multiply_add<Half>(sums, a, b);
}
inline FourTiles load_tiles(const void* row) {
  return on_simt::load(row, false);
}
inline FourTiles load_tiles_transposed(const void* row) {
  return on_simt::load(row, true);
}

inline void copy_async(void* shared, const void* global, uint32_t bytes = 16) {
  if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % 16 != 0)
    simt::fail("cp.async: an address is not 16-byte aligned");
  if (bytes > 16) simt::fail("cp.async: more bytes to read than to write");
  simt::copy_async(shared, 16, global, bytes);
}
inline void commit_copies() {
  simt::commit_copies();
}
template <int kLeft>
void wait_for_copies() {
  simt::wait_for_copies(kLeft);
}

}  // namespace itif::kernels::cuda
