// Bias, residual and LayerNorm in one pass over memory, each row with its tenant's parameters.
#include <cstring>

#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/residual_layer_norm.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/layer_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

template <class T, bool kHasBias, bool kHasResidual>
void RowsWith(const ResidualLayerNorm& args, uint32_t begin, uint32_t end) {
  const hn::ScalableTag<float> d;
  const size_t hidden = args.hidden;
  for_each_range(
      args.ranges, begin, end, [&](uint32_t slot, uint32_t first, uint32_t last) HWY_ATTR {
        const float* bias = nullptr;
        if constexpr (kHasBias) bias = reinterpret_cast<const float*>(args.bias.at(slot));
        const auto* gamma = reinterpret_cast<const float*>(args.gamma.at(slot));
        const auto* beta = reinterpret_cast<const float*>(args.beta.at(slot));
        for (size_t row = first; row < last; ++row) {
          const T* x = static_cast<const T*>(args.x) + row * hidden;
          const T* residual =
              kHasResidual ? static_cast<const T*>(args.residual) + row * hidden : nullptr;
          T* out = static_cast<T*>(args.out) + row * hidden;
          const auto read = [&](auto part, size_t i, size_t n) HWY_ATTR {
            auto value = part.load(d, x + i, n);
            if constexpr (kHasBias) value = hn::Add(value, part.load(d, bias + i, n));
            if constexpr (kHasResidual) value = hn::Add(value, part.load(d, residual + i, n));
            return value;
          };
          if ((!kHasBias && !kHasResidual) || args.sum == nullptr) {
            if (args.sum != nullptr && args.sum != args.x)  // out may be x
              std::memcpy(static_cast<T*>(args.sum) + row * hidden, x, hidden * sizeof(T));
            LayerNormRow(hidden, read, gamma, beta, args.epsilon, out);
            continue;
          }
          // Store the sum first, then read it back: LayerNormRow() reads large rows more than once,
          // and sum may be one of the sources. The stored, rounded sum is thus normalised.
          T* sum = static_cast<T*>(args.sum) + row * hidden;
          ForLanes(d, hidden, [&](auto part, size_t i, size_t n) HWY_ATTR {
            part.store(d, read(part, i, n), sum + i, n);
          });
          LayerNormRow(
              hidden,
              [&](auto part, size_t i, size_t n) HWY_ATTR { return part.load(d, sum + i, n); },
              gamma, beta, args.epsilon, out);
        }
      });
}

template <class T>
void Rows(const ResidualLayerNorm& args, uint32_t begin, uint32_t end) {
  if (args.bias.base != nullptr)
    return args.residual != nullptr ? RowsWith<T, true, true>(args, begin, end)
                                    : RowsWith<T, true, false>(args, begin, end);
  return args.residual != nullptr ? RowsWith<T, false, true>(args, begin, end)
                                  : RowsWith<T, false, false>(args, begin, end);
}

void RowsF32(const ResidualLayerNorm& args, uint32_t begin, uint32_t end) {
  Rows<float>(args, begin, end);
}
void RowsBf16(const ResidualLayerNorm& args, uint32_t begin, uint32_t end) {
  Rows<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(RowsF32);
HWY_EXPORT(RowsBf16);

void run(const ResidualLayerNorm& args, const HostLaunch& launch) noexcept {
  if (args.ranges.empty()) return;
  const uint32_t rows = args.ranges.back().first_row + args.ranges.back().num_rows;
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(RowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(RowsF32);
  parallel_rows(launch, rows, 4, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
