// LayerNorm of one row, which may be a sum of sources. Statistics take two passes: the variance
// about the mean does not cancel as Σx² − (Σx)² does. The sources stay in the L1 cache meanwhile.
#if defined(ITIF_KERNELS_HOST_LAYER_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ITIF_KERNELS_HOST_LAYER_NORM_INL_H_
#undef ITIF_KERNELS_HOST_LAYER_NORM_INL_H_
#else
#define ITIF_KERNELS_HOST_LAYER_NORM_INL_H_
#endif

#include <cmath>

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

// Rows up to this size are summed and widened once and kept on the stack, in the L1 cache. Larger
// rows, which are rare, are read from their sources in each pass.
inline constexpr size_t kStackRow = 4096;

// read(part, i, n) returns lanes [i, i + n) of the row.
template <class T, class Read>
HWY_INLINE void NormalizeRow(size_t hidden, const Read& read, hn::Vec<hn::ScalableTag<float>> sum,
                             const float* gamma, const float* beta, float epsilon, T* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float scale = 1.0f / static_cast<float>(hidden);
  const auto mean = hn::Mul(hn::SumOfLanes(d, sum), hn::Set(d, scale));

  auto squares0 = hn::Zero(d), squares1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= hidden; i += 2 * lanes) {
    const auto a = hn::Sub(read(Whole(), i, lanes), mean);
    const auto b = hn::Sub(read(Whole(), i + lanes, lanes), mean);
    squares0 = hn::MulAdd(a, a, squares0);
    squares1 = hn::MulAdd(b, b, squares1);
  }
  for (; i + lanes <= hidden; i += lanes) {
    const auto a = hn::Sub(read(Whole(), i, lanes), mean);
    squares0 = hn::MulAdd(a, a, squares0);
  }
  if (i < hidden) {
    const auto a =
        hn::IfThenElseZero(hn::FirstN(d, hidden - i), hn::Sub(read(Tail(), i, hidden - i), mean));
    squares1 = hn::MulAdd(a, a, squares1);
  }
  const float variance = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1))) * scale;
  const auto inverse = hn::Set(d, 1.0f / std::sqrt(variance + epsilon));

  ForLanes(d, hidden, [&](auto part, size_t at, size_t n) HWY_ATTR {
    const auto centred = hn::Sub(read(part, at, n), mean);
    const auto scaled = hn::Mul(inverse, part.load(d, gamma + at, n));
    part.store(d, hn::MulAdd(centred, scaled, part.load(d, beta + at, n)), out + at, n);
  });
}

// source(part, i, n) returns lanes [i, i + n) of the row. out may be one of the source's inputs.
template <class T, class Source>
HWY_INLINE void LayerNormRow(size_t hidden, const Source& source, const float* gamma,
                             const float* beta, float epsilon, T* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float row[kStackRow];
  const bool fits = hidden <= kStackRow;
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  size_t i = 0;
  if (fits) {
    for (; i + 2 * lanes <= hidden; i += 2 * lanes) {
      const auto a = source(Whole(), i, lanes);
      const auto b = source(Whole(), i + lanes, lanes);
      hn::Store(a, d, row + i);
      hn::Store(b, d, row + i + lanes);
      sum0 = hn::Add(sum0, a);
      sum1 = hn::Add(sum1, b);
    }
  }
  ForLanes(d, hidden - i, [&](auto part, size_t at, size_t n) HWY_ATTR {
    const auto a = source(part, i + at, n);
    if (fits) part.store(d, a, row + i + at, n);
    sum0 = hn::Add(sum0, a);
  });
  const auto sum = hn::Add(sum0, sum1);
  if (fits) {
    NormalizeRow(
        hidden, [&](auto part, size_t at, size_t n) HWY_ATTR { return part.load(d, row + at, n); },
        sum, gamma, beta, epsilon, out);
  } else {
    NormalizeRow(hidden, source, sum, gamma, beta, epsilon, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#endif  // ITIF_KERNELS_HOST_LAYER_NORM_INL_H_
