// Dot products of a few rows with the rows of a small weight. Four outputs at a time share each
// load of x. All rows use a weight row while it is in the cache.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/small_linear.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

// out[j] = x · weight row (first + j), j in [0, kOutputs).
template <size_t kOutputs>
HWY_INLINE void Dots(const float* x, const float* weight, size_t k, float* out) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kOutputs];
  for (auto& sum : sums) sum = hn::Zero(d);
  ForLanes(d, k, [&](auto part, size_t i, size_t n) HWY_ATTR {
    const auto v = part.load(d, x + i, n);
    for (size_t j = 0; j < kOutputs; ++j)
      sums[j] = hn::MulAdd(v, part.load(d, weight + j * k + i, n), sums[j]);
  });
  for (size_t j = 0; j < kOutputs; ++j) out[j] = hn::GetLane(hn::SumOfLanes(d, sums[j]));
}

template <Activation kActivation>
void Finish(float* x, const float* bias, size_t count) {
  const hn::ScalableTag<float> d;
  ForLanes(d, count, [&](auto part, size_t i, size_t n) HWY_ATTR {
    auto v = part.load(d, x + i, n);
    if (bias != nullptr) v = hn::Add(v, part.load(d, bias + i, n));
    part.store(d, Activate<kActivation, float>(d, v), x + i, n);
  });
}

// Computes columns [begin, end) of every row.
void SmallLinearColumns(const SmallLinear& args, uint32_t begin, uint32_t end) {
  const size_t k = args.k;
  uint32_t column = begin;
  for (; column + 4 <= end; column += 4)
    for (size_t row = 0; row < args.rows; ++row)
      Dots<4>(args.x + row * k, args.weight + column * k, k, args.out + row * args.n + column);
  for (; column < end; ++column)
    for (size_t row = 0; row < args.rows; ++row)
      Dots<1>(args.x + row * k, args.weight + column * k, k, args.out + row * args.n + column);
  for (size_t row = 0; row < args.rows; ++row) {
    float* out = args.out + row * args.n + begin;
    const float* bias = args.bias == nullptr ? nullptr : args.bias + begin;
    switch (args.activation) {
      case Activation::kNone: Finish<Activation::kNone>(out, bias, end - begin); break;
      case Activation::kGelu: Finish<Activation::kGelu>(out, bias, end - begin); break;
      case Activation::kGeluTanh: Finish<Activation::kGeluTanh>(out, bias, end - begin); break;
      case Activation::kRelu: Finish<Activation::kRelu>(out, bias, end - begin); break;
      case Activation::kTanh: Finish<Activation::kTanh>(out, bias, end - begin); break;
      case Activation::kSilu: Finish<Activation::kSilu>(out, bias, end - begin); break;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(SmallLinearColumns);

void run(const SmallLinears& args, const HostLaunch& launch) noexcept {
  const auto run = HWY_DYNAMIC_DISPATCH(SmallLinearColumns);
  for (const SmallLinear& one : args.all)
    parallel_rows(launch, one.n, 32, [&](uint32_t begin, uint32_t end) { run(one, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
