// Low-rank updates in f32 registers. Both products read a matrix of plain rows, [k, n]: a tile of
// rows multiplies it with broadcasts and whole-vector loads, so that nothing is packed.
#include "kernels/host/launch.h"
#include "kernels/host/low_rank.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/low_rank_f32.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using HalfD = hn::CappedTag<float, 8>;
// Vectors per row of a wide tile of six rows: 24 of AVX-512's 32 registers, 12 of AVX2's 16.
constexpr size_t kWidePanels = hn::MaxLanes(D()) >= 16 ? 4 : 2;

HWY_INLINE float Widened(float value) {
  return value;
}
HWY_INLINE float Widened(Bf16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float widened;
  std::memcpy(&widened, &bits, sizeof(widened));
  return widened;
}

// c [rows, n] = a [rows, k] · b [k, n], or c += that.
template <class A, class B, class C>
struct Product {
  const A* a;
  size_t a_stride;
  const B* b;
  size_t b_stride;
  C* c;
  size_t c_stride;
  size_t rows, n, k;
};

// Multiplies R rows by P vectors of columns. `n`: lanes of the last vector that are columns; `part`
// is Whole if they all are.
template <bool kAdds, size_t R, size_t P, class V, class Part, class Of>
HWY_INLINE void Tile(V d, Part part, const Of& of, size_t row, size_t column, size_t n) {
  const size_t lanes = hn::Lanes(d);
  hn::Vec<V> sums[R][P];
  for (size_t r = 0; r < R; ++r)
    for (size_t p = 0; p < P; ++p) {
      if constexpr (kAdds)
        sums[r][p] = part.load(d, of.c + (row + r) * of.c_stride + column + p * lanes, n);
      else
        sums[r][p] = hn::Zero(d);
    }
  for (size_t i = 0; i < of.k; ++i) {
    hn::Vec<V> columns[P];
    for (size_t p = 0; p < P; ++p)
      columns[p] = part.load(d, of.b + i * of.b_stride + column + p * lanes, n);
    for (size_t r = 0; r < R; ++r) {
      const auto value = hn::Set(d, Widened(of.a[(row + r) * of.a_stride + i]));
      for (size_t p = 0; p < P; ++p) sums[r][p] = hn::MulAdd(value, columns[p], sums[r][p]);
    }
  }
  for (size_t r = 0; r < R; ++r)
    for (size_t p = 0; p < P; ++p)
      part.store(d, sums[r][p], of.c + (row + r) * of.c_stride + column + p * lanes, n);
}

// Multiplies all rows. A narrow tile has twice as many rows, for as many independent sums.
template <bool kAdds, size_t P, class V, class Part, class Of>
HWY_NOINLINE void Rows(V d, Part part, const Of& of, size_t column, size_t n) {
  constexpr size_t kRows = P > 1 ? 6 : 12;
  size_t row = 0;
  for (; row + kRows <= of.rows; row += kRows) Tile<kAdds, kRows, P>(d, part, of, row, column, n);
  for (; row + 4 <= of.rows; row += 4) Tile<kAdds, 4, P>(d, part, of, row, column, n);
  for (; row < of.rows; ++row) Tile<kAdds, 1, P>(d, part, of, row, column, n);
}

template <bool kAdds, class Of>
void Multiply(const Of& of) {
  const D d;
  const HalfD half;
  const size_t lanes = hn::Lanes(d), half_lanes = hn::Lanes(half);
  size_t column = 0;
  for (; column + kWidePanels * lanes <= of.n; column += kWidePanels * lanes)
    Rows<kAdds, kWidePanels>(d, Whole(), of, column, lanes);
  for (; column + lanes <= of.n; column += lanes) Rows<kAdds, 1>(d, Whole(), of, column, lanes);
  for (; column + half_lanes <= of.n; column += half_lanes)
    Rows<kAdds, 1>(half, Whole(), of, column, half_lanes);
  if (column < of.n) Rows<kAdds, 1>(half, Tail(), of, column, of.n - column);
}

template <class T>
void TaskOf(const AddLowRank& args, const LowRankTask& task, std::byte* scratch) {
  const LowRankModule& module = task.module;
  auto* between = reinterpret_cast<float*>(scratch);  // [rows, ranks]
  for (size_t first = 0; first < module.rank; first += kLowRankRanks) {
    const size_t ranks = std::min<size_t>(kLowRankRanks, module.rank - first);
    Multiply<false>(
        Product<T, T, float>{.a = static_cast<const T*>(args.x) + size_t{task.first_row} * args.k,
                             .a_stride = args.k,
                             .b = static_cast<const T*>(module.down) + first,
                             .b_stride = module.rank,
                             .c = between,
                             .c_stride = ranks,
                             .rows = task.num_rows,
                             .n = ranks,
                             .k = args.k});
    Multiply<true>(Product<float, T, T>{
        .a = between,
        .a_stride = ranks,
        .b = static_cast<const T*>(module.up) + first * task.num_columns,
        .b_stride = task.num_columns,
        .c = static_cast<T*>(args.out) + size_t{task.first_row} * args.width + task.first_column,
        .c_stride = args.width,
        .rows = task.num_rows,
        .n = task.num_columns,
        .k = ranks});
  }
}

void LowRankF32(const AddLowRank& args, const LowRankTask& task, std::byte* scratch) {
  TaskOf<float>(args, task, scratch);
}
void LowRankBf16(const AddLowRank& args, const LowRankTask& task, std::byte* scratch) {
  TaskOf<Bf16>(args, task, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(LowRankF32);
HWY_EXPORT(LowRankBf16);

LowRankFunction low_rank_f32_task(DType activation) {
  return activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(LowRankBf16)
                                    : HWY_DYNAMIC_DISPATCH(LowRankF32);
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
