// Adds class tokens and positions in one pass over the patch embeddings, each row with its
// tenant's.
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/embed_patches.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

template <class T>
void EmbedPatchRows(const EmbedPatches& args, uint32_t begin, uint32_t end) {
  const hn::ScalableTag<float> d;
  const size_t hidden = args.hidden;
  for_each_range(
      args.ranges, begin, end, [&](uint32_t slot, uint32_t first, uint32_t last) HWY_ATTR {
        const auto* class_token = reinterpret_cast<const float*>(args.class_token.at(slot));
        const T* positions = reinterpret_cast<const T*>(args.position.at(slot));
        auto segment = std::partition_point(
            args.segments.begin(), args.segments.end(),
            [first](const SegmentRows& s) { return s.first_row + s.num_rows <= first; });
        for (; segment != args.segments.end() && segment->first_row < last; ++segment) {
          const uint32_t end_row = std::min(last, segment->first_row + segment->num_rows);
          for (uint32_t row = std::max(first, segment->first_row); row < end_row; ++row) {
            const size_t index = row - segment->first_row;
            const T* position = positions + index * hidden;
            T* x = static_cast<T*>(args.x) + size_t{row} * hidden;
            ForLanes(d, hidden, [&](auto part, size_t i, size_t n) HWY_ATTR {
              const auto token =
                  index == 0 ? part.load(d, class_token + i, n) : part.load(d, x + i, n);
              part.store(d, hn::Add(token, part.load(d, position + i, n)), x + i, n);
            });
          }
        }
      });
}

void EmbedPatchRowsF32(const EmbedPatches& args, uint32_t begin, uint32_t end) {
  EmbedPatchRows<float>(args, begin, end);
}
void EmbedPatchRowsBf16(const EmbedPatches& args, uint32_t begin, uint32_t end) {
  EmbedPatchRows<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(EmbedPatchRowsF32);
HWY_EXPORT(EmbedPatchRowsBf16);

void run(const EmbedPatches& args, const HostLaunch& launch) noexcept {
  if (args.ranges.empty()) return;
  const uint32_t rows = args.ranges.back().first_row + args.ranges.back().num_rows;
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(EmbedPatchRowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(EmbedPatchRowsF32);
  parallel_rows(launch, rows, 8, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
