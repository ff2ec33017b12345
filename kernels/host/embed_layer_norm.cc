// Embedding look-up and LayerNorm in one pass: the sum is never written to memory.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/embed_layer_norm.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/layer_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

template <class T>
void EmbedRows(const EmbedLayerNorm& args, uint32_t begin, uint32_t end) {
  const hn::ScalableTag<float> d;
  const size_t hidden = args.hidden;
  for_each_range(
      args.ranges, begin, end, [&](uint32_t slot, uint32_t first, uint32_t last) HWY_ATTR {
        const auto* gamma = reinterpret_cast<const float*>(args.gamma.at(slot));
        const auto* beta = reinterpret_cast<const float*>(args.beta.at(slot));
        const T* words = reinterpret_cast<const T*>(args.word.at(slot));
        const T* positions = reinterpret_cast<const T*>(args.position.at(slot));
        for (size_t row = first; row < last; ++row) {
          const auto id = static_cast<size_t>(args.ids[row] < 0 ? 0 : args.ids[row]);
          const T* word = words + id * hidden;
          const T* position = positions + size_t{args.positions[row]} * hidden;
          T* out = static_cast<T*>(args.out) + row * hidden;
          if (args.token_type.base != nullptr) {
            const size_t type = args.token_types.empty() ? 0 : args.token_types[row];
            const T* types = reinterpret_cast<const T*>(args.token_type.at(slot)) + type * hidden;
            LayerNormRow(
                hidden,
                [&](auto part, size_t i, size_t n) HWY_ATTR {
                  const auto token = hn::Add(part.load(d, word + i, n), part.load(d, types + i, n));
                  return hn::Add(token, part.load(d, position + i, n));
                },
                gamma, beta, args.epsilon, out);
          } else {
            LayerNormRow(
                hidden,
                [&](auto part, size_t i, size_t n) HWY_ATTR {
                  return hn::Add(part.load(d, word + i, n), part.load(d, position + i, n));
                },
                gamma, beta, args.epsilon, out);
          }
        }
      });
}

void EmbedRowsF32(const EmbedLayerNorm& args, uint32_t begin, uint32_t end) {
  EmbedRows<float>(args, begin, end);
}
void EmbedRowsBf16(const EmbedLayerNorm& args, uint32_t begin, uint32_t end) {
  EmbedRows<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(EmbedRowsF32);
HWY_EXPORT(EmbedRowsBf16);

void run(const EmbedLayerNorm& args, const HostLaunch& launch) noexcept {
  if (args.ranges.empty()) return;
  const uint32_t rows = args.ranges.back().first_row + args.ranges.back().num_rows;
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(EmbedRowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(EmbedRowsF32);
  parallel_rows(launch, rows, 4, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
