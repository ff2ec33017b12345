// Adds bias and activation in one pass over a GEMM's output while it is in the cache.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/bias_activation.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

template <Activation kActivation, class T>
void BiasActivationRows(const BiasActivation& args, uint32_t begin, uint32_t end) {
  const hn::ScalableTag<float> d;
  const size_t width = args.width;
  for_each_range(
      args.ranges, begin, end, [&](uint32_t slot, uint32_t first, uint32_t last) HWY_ATTR {
        T* x = static_cast<T*>(args.x) + first * size_t{width};
        if (args.bias.base == nullptr) {  // the rows of a range are contiguous
          ForLanes(d, (last - first) * width, [&](auto part, size_t i, size_t n) HWY_ATTR {
            part.store(d, Activate<kActivation, T>(d, part.load(d, x + i, n)), x + i, n);
          });
          return;
        }
        const auto* bias = reinterpret_cast<const float*>(args.bias.at(slot));
        for (uint32_t row = first; row < last; ++row, x += width) {
          ForLanes(d, width, [&](auto part, size_t i, size_t n) HWY_ATTR {
            const auto sum = hn::Add(part.load(d, x + i, n), part.load(d, bias + i, n));
            part.store(d, Activate<kActivation, T>(d, sum), x + i, n);
          });
        }
      });
}

template <class T>
void BiasActivationRowsOf(const BiasActivation& args, uint32_t begin, uint32_t end) {
  switch (args.activation) {
    case Activation::kNone: return BiasActivationRows<Activation::kNone, T>(args, begin, end);
    case Activation::kGelu: return BiasActivationRows<Activation::kGelu, T>(args, begin, end);
    case Activation::kGeluTanh:
      return BiasActivationRows<Activation::kGeluTanh, T>(args, begin, end);
    case Activation::kRelu: return BiasActivationRows<Activation::kRelu, T>(args, begin, end);
    case Activation::kTanh: return BiasActivationRows<Activation::kTanh, T>(args, begin, end);
    case Activation::kSilu: return BiasActivationRows<Activation::kSilu, T>(args, begin, end);
  }
}

void BiasActivationRowsF32(const BiasActivation& args, uint32_t begin, uint32_t end) {
  BiasActivationRowsOf<float>(args, begin, end);
}
void BiasActivationRowsBf16(const BiasActivation& args, uint32_t begin, uint32_t end) {
  BiasActivationRowsOf<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(BiasActivationRowsF32);
HWY_EXPORT(BiasActivationRowsBf16);

void run(const BiasActivation& args, const HostLaunch& launch) noexcept {
  if (args.ranges.empty()) return;
  const uint32_t rows = args.ranges.back().first_row + args.ranges.back().num_rows;
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(BiasActivationRowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(BiasActivationRowsF32);
  parallel_rows(launch, rows, 4, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
