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
// Of a step's ranges, which hold a few beams of each tenant: what a tensor core's tile takes at least.
constexpr uint32_t kStepRows[] = {128, 64, 32, 16, 8};

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
  sort();
}

BatchForms BatchForms::of_steps(uint32_t max_rows) {
  BatchForms steps;
  for (const uint32_t rows : kStepRows)
    for (const uint32_t count : kCounts)
      if (uint64_t{rows} * count <= max_rows)
        steps.forms_.push_back({.range_rows = rows, .num_ranges = count});
  steps.sort();
  return steps;
}

void BatchForms::sort() noexcept {
  std::ranges::stable_sort(forms_, {}, cost_of);
}

uint32_t BatchForms::max_rows() const noexcept {
  uint32_t most = 0;
  for (const BatchForm& form : forms_) most = std::max(most, form.num_rows());
  return most;
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

uint32_t append_ranges(const BatchForm* form, uint32_t first_row, uint32_t num_rows, uint32_t slot,
                       std::vector<kernels::RowRange>& ranges) noexcept {
  if (form == nullptr) {
    ranges.push_back({first_row, num_rows, slot});
    return first_row + num_rows;
  }
  const uint32_t step = form->range_rows;
  uint32_t row = first_row;
  for (; row < first_row + num_rows; row += step) ranges.push_back({row, step, slot});
  return row;
}

uint32_t fill_ranges(const BatchForm& form, uint32_t next_row,
                     std::vector<kernels::RowRange>& ranges) noexcept {
  const uint32_t slot = ranges.empty() ? 0 : ranges.back().slot;
  for (; ranges.size() < form.num_ranges; next_row += form.range_rows)
    ranges.push_back({next_row, form.range_rows, slot});
  return next_row;
}

}  // namespace itif::runtime
