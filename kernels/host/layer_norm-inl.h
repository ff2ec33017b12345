// LayerNorm of one row, whatever the row is the sum of. Two passes for the statistics: the variance
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

// source(part, i, n) gives lanes [i, i + n) of the row. out may be one of the source's inputs.
template <class T, class Source>
HWY_INLINE void LayerNormRow(size_t hidden, const Source& source, const float* gamma,
                             const float* beta, float epsilon, T* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float scale = 1.0f / static_cast<float>(hidden);

  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= hidden; i += 2 * lanes) {
    sum0 = hn::Add(sum0, source(Whole(), i, lanes));
    sum1 = hn::Add(sum1, source(Whole(), i + lanes, lanes));
  }
  for (; i + lanes <= hidden; i += lanes) sum0 = hn::Add(sum0, source(Whole(), i, lanes));
  if (i < hidden) sum1 = hn::Add(sum1, source(Tail(), i, hidden - i));
  const auto mean = hn::Mul(hn::SumOfLanes(d, hn::Add(sum0, sum1)), hn::Set(d, scale));

  auto squares0 = hn::Zero(d), squares1 = hn::Zero(d);
  for (i = 0; i + 2 * lanes <= hidden; i += 2 * lanes) {
    const auto a = hn::Sub(source(Whole(), i, lanes), mean);
    const auto b = hn::Sub(source(Whole(), i + lanes, lanes), mean);
    squares0 = hn::MulAdd(a, a, squares0);
    squares1 = hn::MulAdd(b, b, squares1);
  }
  for (; i + lanes <= hidden; i += lanes) {
    const auto a = hn::Sub(source(Whole(), i, lanes), mean);
    squares0 = hn::MulAdd(a, a, squares0);
  }
  if (i < hidden) {
    const auto a =
        hn::IfThenElseZero(hn::FirstN(d, hidden - i), hn::Sub(source(Tail(), i, hidden - i), mean));
    squares1 = hn::MulAdd(a, a, squares1);
  }
  const float variance = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1))) * scale;
  const auto inverse = hn::Set(d, 1.0f / std::sqrt(variance + epsilon));

  ForLanes(d, hidden, [&](auto part, size_t at, size_t n) HWY_ATTR {
    const auto centred = hn::Sub(source(part, at, n), mean);
    const auto scaled = hn::Mul(hn::Mul(centred, inverse), part.load(d, gamma + at, n));
    part.store(d, hn::Add(scaled, part.load(d, beta + at, n)), out + at, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#endif  // ITIF_KERNELS_HOST_LAYER_NORM_INL_H_
