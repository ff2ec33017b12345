// Loads and stores of activations (f32 or bf16 in memory, f32 in registers) for Highway kernels,
// whole vectors and tails. Highway includes this once per target, hence the guard that toggles.
#if defined(ITIF_KERNELS_HOST_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ITIF_KERNELS_HOST_ACTIVATION_INL_H_
#undef ITIF_KERNELS_HOST_ACTIVATION_INL_H_
#else
#define ITIF_KERNELS_HOST_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels/host/launch.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadAct(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadAct(D d, const Bf16* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE void StoreAct(D d, hn::Vec<D> v, float* p) {
  hn::StoreU(v, d, p);
}

// Rounds to nearest even, as f32_to_bf16 does; a NaN becomes the quiet NaN.
template <class D>
HWY_INLINE void StoreAct([[maybe_unused]] D d, hn::Vec<D> v, Bf16* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  const auto half = hn::IfThenElse(is_nan, hn::Set(du, 0x7fc0u), rounded);
  // Values lie in [0, 0xffff], so that the saturating narrowing is exact.
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, half)), d16, reinterpret_cast<uint16_t*>(p));
}

// Loads the first n lanes, 0 < n < Lanes(d); the others are 0. Reads no memory past them.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadActN(D d, const T* p, size_t n) {
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return LoadAct(d, lanes);
}

template <class D, class T>
HWY_INLINE void StoreActN(D d, hn::Vec<D> v, T* p, size_t n) {
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  StoreAct(d, v, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
}

// ForLanes() calls body(part, i, n) for lanes [i, i + n) up to `count`. n is Lanes(d), except in
// the last call. `part` is Whole or Tail, so that whole vectors take no branch.
struct Whole {
  template <class D, class T>
  static HWY_INLINE hn::Vec<D> load(D d, const T* p, size_t) {
    return LoadAct(d, p);
  }
  template <class D, class T>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* p, size_t) {
    StoreAct(d, v, p);
  }
};
struct Tail {
  template <class D, class T>
  static HWY_INLINE hn::Vec<D> load(D d, const T* p, size_t n) {
    return LoadActN(d, p, n);
  }
  template <class D, class T>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* p, size_t n) {
    StoreActN(d, v, p, n);
  }
};

template <class D, class Body>
HWY_INLINE void ForLanes(D d, size_t count, Body&& body) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(Whole(), i, lanes);
  if (i < count) body(Tail(), i, count - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#endif  // ITIF_KERNELS_HOST_ACTIVATION_INL_H_
