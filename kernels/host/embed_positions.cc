// Adds scaled embeddings and positions in one pass.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/embed_positions.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

template <class T>
void EmbedPositionRows(const EmbedPositions& args, uint32_t begin, uint32_t end) {
  const hn::ScalableTag<float> d;
  const size_t hidden = args.hidden;
  for_each_range(args.ranges, begin, end,
                 [&](uint32_t slot, uint32_t first, uint32_t last) HWY_ATTR {
                   const T* words = reinterpret_cast<const T*>(args.word.at(slot));
                   for (size_t row = first; row < last; ++row) {
                     const auto id = static_cast<size_t>(args.ids[row] < 0 ? 0 : args.ids[row]);
                     const T* word = words + id * hidden;
                     const float* position = args.position + size_t{args.positions[row]} * hidden;
                     T* out = static_cast<T*>(args.out) + row * hidden;
                     ForLanes(d, hidden, [&](auto part, size_t i, size_t n) HWY_ATTR {
                       part.store(d,
                                  hn::MulAdd(part.load(d, word + i, n), hn::Set(d, args.scale),
                                             part.load(d, position + i, n)),
                                  out + i, n);
                     });
                   }
                 });
}

void EmbedPositionRowsF32(const EmbedPositions& args, uint32_t begin, uint32_t end) {
  EmbedPositionRows<float>(args, begin, end);
}
void EmbedPositionRowsBf16(const EmbedPositions& args, uint32_t begin, uint32_t end) {
  EmbedPositionRows<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(EmbedPositionRowsF32);
HWY_EXPORT(EmbedPositionRowsBf16);

void run(const EmbedPositions& args, const HostLaunch& launch) noexcept {
  if (args.ranges.empty()) return;
  const uint32_t rows = args.ranges.back().first_row + args.ranges.back().num_rows;
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(EmbedPositionRowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(EmbedPositionRowsF32);
  parallel_rows(launch, rows, 8, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
