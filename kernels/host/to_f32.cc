// Widens bf16 activations; copies f32 ones.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/to_f32.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

void WidenBf16(const Bf16* x, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  ForLanes(d, count, [&](auto part, size_t i, size_t n) HWY_ATTR {
    part.store(d, part.load(d, x + i, n), out + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(WidenBf16);

void run(const ToF32& args, const HostLaunch& launch) noexcept {
  constexpr size_t kBlock = 1024;  // values per unit of the partition, so that counts fit 32 bits
  const auto blocks = static_cast<uint32_t>((args.count + kBlock - 1) / kBlock);
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenBf16);
  parallel_rows(launch, blocks, 16, [&](uint32_t begin, uint32_t end) {
    const size_t first = begin * kBlock;
    const size_t count = std::min(args.count, end * kBlock) - first;
    if (launch.activation == DType::kBF16)
      widen(static_cast<const Bf16*>(args.x) + first, args.out + first, count);
    else
      std::memcpy(args.out + first, static_cast<const float*>(args.x) + first,
                  count * sizeof(float));
  });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
