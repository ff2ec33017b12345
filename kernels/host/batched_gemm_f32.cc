// One product of a batched GEMM in f32 registers. b is packed into panels of one vector of columns,
// [panel][k][lanes], so that a tile of rows multiplies it with broadcasts and whole-vector loads
// only.
#include "kernels/host/batched_gemm.h"
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/batched_gemm_f32.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
constexpr size_t kTileRows = 6;
// Vectors per row of a tile: with six rows, 24 of AVX-512's 32 registers, 12 of AVX2's 16.
constexpr size_t kTilePanels = hn::MaxLanes(D()) >= 16 ? 4 : 2;

struct Product {
  const float* a;  // [rows][k]
  const float* b;  // [panels][k][lanes]
  float* out;      // [rows][stride]
  size_t k, stride;
};

template <size_t R, size_t P>
HWY_INLINE void Tile(const Product& product, size_t panel) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const size_t panel_stride = product.k * lanes;
  const float* b = product.b + panel * panel_stride;
  hn::Vec<D> sums[R][P];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  for (size_t i = 0; i < product.k; ++i) {
    hn::Vec<D> columns[P];
    for (size_t p = 0; p < P; ++p) columns[p] = hn::LoadU(d, b + p * panel_stride + i * lanes);
    for (size_t r = 0; r < R; ++r) {
      const auto value = hn::Set(d, product.a[r * product.k + i]);
      for (size_t p = 0; p < P; ++p) sums[r][p] = hn::MulAdd(value, columns[p], sums[r][p]);
    }
  }
  for (size_t r = 0; r < R; ++r)
    for (size_t p = 0; p < P; ++p)
      hn::StoreU(sums[r][p], d, product.out + r * product.stride + (panel + p) * lanes);
}

template <size_t R>
HWY_NOINLINE void Rows(const Product& product, size_t panels) {
  size_t panel = 0;
  for (; panel + kTilePanels <= panels; panel += kTilePanels) Tile<R, kTilePanels>(product, panel);
  for (; panel < panels; ++panel) Tile<R, 1>(product, panel);
}

template <class T>
void CopyRow(const T* from, size_t count, float* to) {
  const D d;
  ForLanes(d, count, [&](auto part, size_t i, size_t n) HWY_ATTR {
    part.store(d, part.load(d, from + i, n), to + i, n);
  });
}

// `row`: scratch for one row of b, in whole vectors.
template <class T>
void Pack(const T* b, bool is_transposed, size_t n, size_t k, float* row, float* packed) {
  const size_t lanes = hn::Lanes(D());
  const size_t columns = (n + lanes - 1) / lanes * lanes;
  if (is_transposed) {
    for (size_t j = 0; j < columns; ++j) {
      // Columns past the last repeat it: their sums are discarded.
      CopyRow(b + std::min(j, n - 1) * k, k, row);
      float* panel = packed + j / lanes * lanes * k + j % lanes;
      for (size_t i = 0; i < k; ++i) panel[i * lanes] = row[i];
    }
    return;
  }
  for (size_t i = 0; i < k; ++i) {
    CopyRow(b + i * n, n, row);
    for (size_t j = n; j < columns; ++j) row[j] = 0.0f;
    for (size_t j = 0; j < columns; j += lanes) CopyRow(row + j, lanes, packed + j * k + i * lanes);
  }
}

template <class T>
void TaskOf(const BatchedGemm& args, const BatchedGemmTask& task, std::byte* scratch) {
  const size_t lanes = hn::Lanes(D());
  const size_t n = task.n, k = task.k, panels = (n + lanes - 1) / lanes, stride = panels * lanes;
  auto* packed = reinterpret_cast<float*>(scratch);
  float* rows = packed + stride * k;
  float* sums = rows + kTileRows * k;
  if (n == 0) return;
  Pack(static_cast<const T*>(args.b) + task.b, args.is_b_transposed, n, k,
       args.is_b_transposed ? rows : sums, packed);
  const T* a = static_cast<const T*>(args.a) + task.a;
  T* out = static_cast<T*>(args.out) + task.out;
  const Product product{.a = rows, .b = packed, .out = sums, .k = k, .stride = stride};
  for (size_t row = task.m_begin; row < task.m_end;) {
    const size_t left = task.m_end - row;
    const size_t count = left >= kTileRows ? kTileRows : left >= 2 ? 2 : 1;
    for (size_t r = 0; r < count; ++r) CopyRow(a + (row + r) * k, k, rows + r * k);
    if (count == kTileRows)
      Rows<kTileRows>(product, panels);
    else if (count == 2)
      Rows<2>(product, panels);
    else
      Rows<1>(product, panels);
    const D d;
    for (size_t r = 0; r < count; ++r)
      ForLanes(d, n, [&](auto part, size_t i, size_t c) HWY_ATTR {
        part.store(d, part.load(d, sums + r * stride + i, c), out + (row + r) * n + i, c);
      });
    row += count;
  }
}

void TaskF32(const BatchedGemm& args, const BatchedGemmTask& task, std::byte* scratch) {
  TaskOf<float>(args, task, scratch);
}
void TaskBf16(const BatchedGemm& args, const BatchedGemmTask& task, std::byte* scratch) {
  TaskOf<Bf16>(args, task, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(TaskF32);
HWY_EXPORT(TaskBf16);

BatchedGemmFunction batched_gemm_f32_task(DType activation) {
  return activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(TaskBf16)
                                    : HWY_DYNAMIC_DISPATCH(TaskF32);
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
