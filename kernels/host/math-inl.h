// erf, exp and the activation functions on vectors of f32.
#if defined(ITIF_KERNELS_HOST_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ITIF_KERNELS_HOST_MATH_INL_H_
#undef ITIF_KERNELS_HOST_MATH_INL_H_
#else
#define ITIF_KERNELS_HOST_MATH_INL_H_
#endif

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

// Erf: |error| < 2e-7. A rational approximation x·P(x²)/Q(x²) on [-4, 4]; beyond it erf is ±1 in
// f32. Source: Eigen, generic_fast_erf_float (a minimax fit).
template <class D>
HWY_INLINE hn::Vec<D> Erf(D d, hn::Vec<D> value) {
  const auto x = hn::Clamp(value, hn::Set(d, -4.0f), hn::Set(d, 4.0f));
  const auto y = hn::Mul(x, x);
  auto p = hn::Set(d, -2.72614225801306e-10f);
  p = hn::MulAdd(p, y, hn::Set(d, 2.77068142495902e-08f));
  p = hn::MulAdd(p, y, hn::Set(d, -2.10102402082508e-06f));
  p = hn::MulAdd(p, y, hn::Set(d, -5.69250639462346e-05f));
  p = hn::MulAdd(p, y, hn::Set(d, -7.34990630326855e-04f));
  p = hn::MulAdd(p, y, hn::Set(d, -2.95459980854025e-03f));
  p = hn::MulAdd(p, y, hn::Set(d, -1.60960333262415e-02f));
  auto q = hn::Set(d, -1.45660718464996e-05f);
  q = hn::MulAdd(q, y, hn::Set(d, -2.13374055278905e-04f));
  q = hn::MulAdd(q, y, hn::Set(d, -1.68282697438203e-03f));
  q = hn::MulAdd(q, y, hn::Set(d, -7.37332916720468e-03f));
  q = hn::MulAdd(q, y, hn::Set(d, -1.42647390514189e-02f));
  return hn::Div(hn::Mul(x, p), q);
}

// ErfForBf16: |error| < 8e-6, for results that are rounded to bf16. Needs no division. A minimax
// fit of erf(x)/x in x² up to 3.2², weighted for x·erf(x). The polynomial is centred on that
// interval, where its terms do not cancel. Beyond it erf is ±1.
template <class D>
HWY_INLINE hn::Vec<D> ErfForBf16(D d, hn::Vec<D> x) {
  const auto square = hn::Mul(x, x);
  const auto y = hn::MulAdd(square, hn::Set(d, 0.1953125f), hn::Set(d, -1.0f));  // 2x²/3.2² − 1
  auto p = hn::Set(d, -0.00481581559f);
  p = hn::MulAdd(p, y, hn::Set(d, 0.0140126497f));
  p = hn::MulAdd(p, y, hn::Set(d, -0.0194315244f));
  p = hn::MulAdd(p, y, hn::Set(d, 0.0290182197f));
  p = hn::MulAdd(p, y, hn::Set(d, -0.0521326314f));
  p = hn::MulAdd(p, y, hn::Set(d, 0.0817473659f));
  p = hn::MulAdd(p, y, hn::Set(d, -0.114217057f));
  p = hn::MulAdd(p, y, hn::Set(d, 0.154255422f));
  p = hn::MulAdd(p, y, hn::Set(d, -0.217275132f));
  p = hn::MulAdd(p, y, hn::Set(d, 0.441335484f));
  const auto is_far = hn::Ge(y, hn::Set(d, 1.0f));
  return hn::IfThenElse(is_far, hn::CopySign(hn::Set(d, 1.0f), x), hn::Mul(x, p));
}

// e^x, relative error < 3e-7; 0 below -87 (no subnormals), e^88 above 88. Splits x = n·ln2 + r with
// |r| ≤ ln2/2 in two steps (Cody-Waite). A Taylor polynomial gives e^r, exponent bits give 2ⁿ.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> value) {
  const hn::RebindToSigned<D> di;
  const auto x = hn::Min(value, hn::Set(d, 88.0f));
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.0f / 720.0f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  const auto result = hn::Mul(p, hn::BitCast(d, exponent));
  return hn::IfThenElseZero(hn::Ge(value, hn::Set(d, -87.0f)), result);
}

// |error| < 3e-7.
template <class D>
HWY_INLINE hn::Vec<D> Tanh(D d, hn::Vec<D> x) {
  // tanh |x| = 1 − 2/(e^{2|x|} + 1)
  const auto e = Exp(d, hn::Min(hn::Mul(hn::Abs(x), hn::Set(d, 2.0f)), hn::Set(d, 40.0f)));
  const auto one = hn::Set(d, 1.0f);
  return hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one))), x);
}

// T: the type in which the result is stored.
template <Activation kActivation, class T, class D>
HWY_INLINE hn::Vec<D> Activate(D d, hn::Vec<D> x) {
  if constexpr (kActivation == Activation::kGelu) {
    const auto half = hn::Mul(x, hn::Set(d, 0.5f));
    const auto scaled = hn::Mul(x, hn::Set(d, 0.70710678f));
    if constexpr (sizeof(T) == 2) return hn::MulAdd(half, ErfForBf16(d, scaled), half);
    return hn::MulAdd(half, Erf(d, scaled), half);
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    // 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
    const auto half = hn::Mul(x, hn::Set(d, 0.5f));
    const auto cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
    return hn::MulAdd(half, Tanh(d, hn::Mul(cubic, hn::Set(d, 0.79788456f))), half);
  } else if constexpr (kActivation == Activation::kRelu) {
    return hn::Max(x, hn::Zero(d));
  } else if constexpr (kActivation == Activation::kTanh) {
    return Tanh(d, x);
  } else if constexpr (kActivation == Activation::kSilu) {
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(x))));
  } else {
    return x;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#endif  // ITIF_KERNELS_HOST_MATH_INL_H_
