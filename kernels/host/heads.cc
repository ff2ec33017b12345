// Rows to heads and back: the transposes around attention in the thesis fusion mode.
#include <cstring>

#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/heads.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/activation-inl.h"

#ifndef ITIF_HEADS_SEGMENTS
#define ITIF_HEADS_SEGMENTS
namespace itif::kernels::host {
// Calls body(segment, row) for the rows of segments that lie in [begin, end).
template <class Body>
void for_each_padded_row(std::span<const PaddedSegment> segments, uint32_t begin, uint32_t end,
                         Body&& body) {
  auto segment = std::partition_point(
      segments.begin(), segments.end(),
      [begin](const PaddedSegment& s) { return s.first_row + s.num_rows <= begin; });
  for (; segment != segments.end() && segment->first_row < end; ++segment) {
    const uint32_t last = std::min(end, segment->first_row + segment->num_rows);
    for (uint32_t row = std::max(begin, segment->first_row); row < last; ++row) body(*segment, row);
  }
}
// Returns the offset of a row's first head in the layout by heads, in elements. The next head is
// num_rows · head_size further.
inline size_t first_head(const PaddedSegment& segment, uint32_t row, size_t hidden,
                         size_t head_size) {
  return segment.first_row * hidden + (row - segment.first_row) * head_size;
}
}  // namespace itif::kernels::host
#endif

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

template <class T>
void SplitRows(const SplitHeads& args, uint32_t begin, uint32_t end) {
  const hn::ScalableTag<float> d;
  const size_t head_size = args.head_size, hidden = args.num_heads * head_size;
  for (const HeadPart& part_of : args.parts)
    for_each_range(args.ranges, begin, end, [&](uint32_t slot, uint32_t first, uint32_t last) {
      const bool has_bias = part_of.bias.base != nullptr;
      const auto* bias = has_bias ? reinterpret_cast<const float*>(part_of.bias.at(slot)) : nullptr;
      for_each_padded_row(
          args.segments, first, last, [&](const PaddedSegment& segment, uint32_t row) HWY_ATTR {
            const T* x = static_cast<const T*>(part_of.x) + row * hidden;
            T* out = static_cast<T*>(part_of.out) + first_head(segment, row, hidden, head_size);
            for (size_t at = 0; at < hidden; at += head_size, out += segment.num_rows * head_size) {
              if (!has_bias) {
                std::memcpy(out, x + at, head_size * sizeof(T));
                continue;
              }
              ForLanes(d, head_size, [&](auto part, size_t i, size_t n) HWY_ATTR {
                part.store(d, hn::Add(part.load(d, x + at + i, n), part.load(d, bias + at + i, n)),
                           out + i, n);
              });
            }
          });
    });
}

void SplitRowsF32(const SplitHeads& args, uint32_t begin, uint32_t end) {
  SplitRows<float>(args, begin, end);
}
void SplitRowsBf16(const SplitHeads& args, uint32_t begin, uint32_t end) {
  SplitRows<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(SplitRowsF32);
HWY_EXPORT(SplitRowsBf16);

void run(const SplitHeads& args, const HostLaunch& launch) noexcept {
  if (args.segments.empty()) return;
  const uint32_t rows = args.segments.back().first_row + args.segments.back().num_rows;
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(SplitRowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(SplitRowsF32);
  parallel_rows(launch, rows, 4, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

void run(const MergeHeads& args, const HostLaunch& launch) noexcept {
  if (args.segments.empty()) return;
  const size_t element = dtype_bytes(launch.activation);
  const size_t head_size = args.head_size, hidden = args.num_heads * head_size;
  const uint32_t rows = args.segments.back().first_row + args.segments.back().num_rows;
  parallel_rows(launch, rows, 8, [&](uint32_t begin, uint32_t end) {
    for_each_padded_row(args.segments, begin, end, [&](const PaddedSegment& segment, uint32_t row) {
      const std::byte* x = static_cast<const std::byte*>(args.x) +
                           first_head(segment, row, hidden, head_size) * element;
      std::byte* out = static_cast<std::byte*>(args.out) + row * hidden * element;
      for (uint32_t head = 0; head < args.num_heads; ++head) {
        std::memcpy(out, x, head_size * element);
        out += head_size * element;
        x += segment.num_rows * head_size * element;
      }
    });
  });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
