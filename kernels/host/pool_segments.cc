// Pooling as sentence-transformers defines it, in f32, one segment after another.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/pool_segments.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

// x: rows of one segment. kMax: takes the largest value of each column; otherwise the sum times
// scale.
template <bool kMax, class T>
void Reduce(const T* x, size_t rows, size_t hidden, float scale, float* out) {
  const hn::ScalableTag<float> d;
  ForLanes(d, hidden, [&](auto part, size_t i, size_t n) HWY_ATTR {
    auto reduced = part.load(d, x + i, n);
    for (size_t row = 1; row < rows; ++row) {
      const auto v = part.load(d, x + row * hidden + i, n);
      reduced = kMax ? hn::Max(reduced, v) : hn::Add(reduced, v);
    }
    if constexpr (!kMax) reduced = hn::Mul(reduced, hn::Set(d, scale));
    part.store(d, reduced, out + i, n);
  });
}

// As torch.nn.functional.normalize: a zero vector stays zero.
void Normalize(float* x, size_t count) {
  const hn::ScalableTag<float> d;
  auto squares = hn::Zero(d);
  ForLanes(d, count, [&](auto part, size_t i, size_t n) HWY_ATTR {
    const auto v = part.load(d, x + i, n);
    squares = hn::MulAdd(v, v, squares);
  });
  const float length = std::sqrt(hn::GetLane(hn::SumOfLanes(d, squares)));
  const auto scale = hn::Set(d, 1.0f / std::max(length, 1e-12f));
  ForLanes(d, count, [&](auto part, size_t i, size_t n) HWY_ATTR {
    part.store(d, hn::Mul(part.load(d, x + i, n), scale), x + i, n);
  });
}

template <class T>
void PoolOutputs(const PoolSegments& args, uint32_t begin, uint32_t end) {
  const size_t hidden = args.hidden;
  for (size_t s = begin; s < end; ++s) {
    const SegmentRows segment = args.segments[args.chosen[s]];
    const size_t first = segment.first_row, rows = segment.num_rows;
    float* out = args.out + s * hidden;
    if (rows == 0) {
      std::fill(out, out + hidden, 0.0f);
      continue;
    }
    const T* x = static_cast<const T*>(args.x) + first * hidden;
    const auto count = static_cast<float>(rows);
    switch (args.pooling) {
      case Pooling::kFirst: Reduce<false>(x, 1, hidden, 1.0f, out); break;
      case Pooling::kLast: Reduce<false>(x + (rows - 1) * hidden, 1, hidden, 1.0f, out); break;
      case Pooling::kMean: Reduce<false>(x, rows, hidden, 1.0f / count, out); break;
      case Pooling::kMeanSqrtLength:
        Reduce<false>(x, rows, hidden, 1.0f / std::sqrt(count), out);
        break;
      case Pooling::kMax: Reduce<true>(x, rows, hidden, 1.0f, out); break;
    }
    if (args.normalize) Normalize(out, hidden);
  }
}

void PoolOutputsF32(const PoolSegments& args, uint32_t begin, uint32_t end) {
  PoolOutputs<float>(args, begin, end);
}
void PoolOutputsBf16(const PoolSegments& args, uint32_t begin, uint32_t end) {
  PoolOutputs<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(PoolOutputsF32);
HWY_EXPORT(PoolOutputsBf16);

void run(const PoolSegments& args, const HostLaunch& launch) noexcept {
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(PoolOutputsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(PoolOutputsF32);
  parallel_rows(launch, static_cast<uint32_t>(args.chosen.size()), 4,
                [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
