// Softmax over rows of scores in memory, one pass for all heads of all segments.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/softmax.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

// Rows up to this size keep their exponentials on the stack. Longer rows compute them twice.
inline constexpr size_t kStackKeys = 2048;

template <class T>
void SoftmaxRow(T* x, size_t length, size_t keys, float factor) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, factor);
  auto largest = hn::Set(d, -3e38f);
  ForLanes(d, keys, [&](auto part, size_t i, size_t n) HWY_ATTR {
    auto scores = hn::Mul(part.load(d, x + i, n), scale);
    if (n < hn::Lanes(d)) scores = hn::IfThenElse(hn::FirstN(d, n), scores, largest);
    largest = hn::Max(largest, scores);
  });
  const auto offset = hn::MaxOfLanes(d, largest);
  const auto exponential = [&](auto part, size_t i, size_t n) HWY_ATTR {
    return Exp(d, hn::MulSub(part.load(d, x + i, n), scale, offset));
  };
  HWY_ALIGN float row[kStackKeys];
  const bool fits = keys <= kStackKeys;
  auto sum = hn::Zero(d);
  ForLanes(d, keys, [&](auto part, size_t i, size_t n) HWY_ATTR {
    const auto p = exponential(part, i, n);
    sum = hn::Add(sum, n < hn::Lanes(d) ? hn::IfThenElseZero(hn::FirstN(d, n), p) : p);
    if (fits) part.store(d, p, row + i, n);
  });
  const auto inverse = hn::Set(d, 1.0f / hn::GetLane(hn::SumOfLanes(d, sum)));
  ForLanes(d, keys, [&](auto part, size_t i, size_t n) HWY_ATTR {
    const auto p = fits ? part.load(d, row + i, n) : exponential(part, i, n);
    part.store(d, hn::Mul(p, inverse), x + i, n);
  });
  for (size_t i = keys; i < length; ++i) x[i] = T{};
}

// Computes rows [begin, end), numbered across all heads of all segments.
template <class T>
void SoftmaxRows(const Softmax& args, uint64_t begin, uint64_t end) {
  uint64_t before = 0;  // rows of earlier segments
  for (const PaddedSegment& segment : args.segments) {
    const uint64_t rows = uint64_t{args.num_heads} * segment.num_rows;
    const uint64_t first = std::max(begin, before), last = std::min(end, before + rows);
    T* scores = static_cast<T*>(args.x) + segment.first_score;
    for (uint64_t row = first; row < last; ++row)
      SoftmaxRow(scores + (row - before) * segment.num_rows, segment.num_rows, segment.num_tokens,
                 args.scale);
    before += rows;
  }
}

void SoftmaxRowsF32(const Softmax& args, uint64_t begin, uint64_t end) {
  SoftmaxRows<float>(args, begin, end);
}
void SoftmaxRowsBf16(const Softmax& args, uint64_t begin, uint64_t end) {
  SoftmaxRows<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(SoftmaxRowsF32);
HWY_EXPORT(SoftmaxRowsBf16);

void run(const Softmax& args, const HostLaunch& launch) noexcept {
  uint64_t rows = 0;
  for (const PaddedSegment& segment : args.segments)
    rows += uint64_t{args.num_heads} * segment.num_rows;
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(SoftmaxRowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(SoftmaxRowsF32);
  parallel_rows(launch, static_cast<uint32_t>(rows), 16,
                [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
