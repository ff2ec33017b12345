#include "runtime/batch_forms.h"

#include <algorithm>

namespace itif::runtime {
namespace {

constexpr uint32_t kAlignment = 16;                   // rows; what tensor cores take at a time
constexpr uint32_t kRangeRows[] = {128, 64, 32, 16};  // of equal cost the longest ranges
constexpr uint32_t kCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32};
// A GEMM computes tiles of about so many rows, full or not.
constexpr uint32_t kTileRows = 64;
// Rows for a segment, of few requests and of many short ones.
constexpr uint32_t kRowsPerSegment[] = {16, 4};
constexpr uint32_t kLeastSegments[] = {2, 4};

uint64_t cost_of(const BatchForm& form) {
  return uint64_t{form.num_ranges} * std::max(form.range_rows, kTileRows) + form.num_rows() +
         form.num_segments;
}

}  // namespace

BatchForms::BatchForms(uint32_t max_rows, uint32_t image_tokens) {
  const uint32_t image_rows = (image_tokens + kAlignment - 1) / kAlignment * kAlignment;
  const std::span<const uint32_t> sizes =
      image_tokens == 0 ? std::span<const uint32_t>(kRangeRows) : std::span(&image_rows, 1);
  for (const uint32_t rows : sizes)
    for (const uint32_t count : kCounts) {
      if (uint64_t{rows} * count > max_rows) break;
      if (image_tokens > 0) {
        forms_.push_back({rows, count, count, 0, count});
        continue;
      }
      for (size_t i = 0; i < std::size(kRowsPerSegment); ++i) {
        const uint32_t segments = std::max(kLeastSegments[i], rows * count / kRowsPerSegment[i]);
        forms_.push_back({rows, count, segments, 2 * segments + 8, 0});
      }
    }
  std::ranges::stable_sort(forms_, {}, cost_of);
}

const BatchForm* BatchForms::find(std::span<const kernels::RowRange> runs, size_t num_segments,
                                  size_t num_pieces) const noexcept {
  if (runs.empty()) return nullptr;
  for (const BatchForm& form : forms_) {  // by cost
    if (form.num_segments < num_segments || form.num_pieces < num_pieces) continue;
    uint64_t ranges = 0;
    for (const kernels::RowRange& run : runs)
      ranges += (run.num_rows + form.range_rows - 1) / form.range_rows;
    if (ranges <= form.num_ranges) return &form;
  }
  return nullptr;
}

}  // namespace itif::runtime
