#include "runtime/graph_buckets.h"

#include <algorithm>

namespace itif::runtime {
namespace {

constexpr uint32_t kAlignment = 16;                   // rows of a tensor-core tile
constexpr uint32_t kRangeRows[] = {128, 64, 32, 16};  // at equal cost, longer ranges are preferred
// At least two: cuBLAS 13.1 has slow kernels for a call by pointers of one GEMM (74 µs instead of 6
// for BERT-base's 64 rows on an H200).
constexpr uint32_t kCounts[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32};
// A GEMM computes whole tiles of about this many rows, full or not.
constexpr uint32_t kTileRows = 64;
// Rows per segment: for few requests, and for many short ones.
constexpr uint32_t kRowsPerSegment[] = {16, 4};
constexpr uint32_t kMinSegments[] = {2, 4};
// Range rows of decoder steps, which hold a few beams per tenant. Tensor-core tiles have at least
// 8.
constexpr uint32_t kStepRows[] = {128, 64, 32, 16, 8};

uint32_t round_up(uint32_t rows) {
  return (rows + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t cost_of(const GraphBucket& bucket) {
  return uint64_t{bucket.num_ranges} * std::max(bucket.range_rows, kTileRows) + bucket.num_rows() +
         bucket.num_segments;
}

}  // namespace

GraphBuckets::GraphBuckets(uint32_t max_rows, uint32_t image_tokens) {
  // Pieces of many images would move the plan of what follows them, which graphs refer to.
  if (image_tokens > 0) max_rows = std::min(max_rows, kSmallRows);
  const uint32_t image_rows = round_up(image_tokens);
  const std::span<const uint32_t> sizes =
      image_tokens == 0 ? std::span<const uint32_t>(kRangeRows) : std::span(&image_rows, 1);
  if (const uint32_t half = round_up(image_rows / 2); image_tokens > 0 && 2 * half <= max_rows)
    buckets_.push_back({half, 2, 1, 0, 1});  // one image
  for (const uint32_t rows : sizes)
    for (const uint32_t count : kCounts) {
      if (uint64_t{rows} * count > max_rows) break;
      if (image_tokens > 0) {
        buckets_.push_back({rows, count, count, 0, count});
        continue;
      }
      // A large batch of many short requests stays unpadded.
      const size_t num_sizes = rows * count <= kSmallRows ? std::size(kRowsPerSegment) : 1;
      for (size_t i = 0; i < num_sizes; ++i) {
        const uint32_t segments = std::max(kMinSegments[i], rows * count / kRowsPerSegment[i]);
        buckets_.push_back({rows, count, segments, 2 * segments + 8, 0});
      }
    }
  sort();
}

GraphBuckets GraphBuckets::of_steps(uint32_t max_rows) {
  GraphBuckets steps;
  for (const uint32_t rows : kStepRows)
    for (const uint32_t count : kCounts)
      if (uint64_t{rows} * count <= std::min(max_rows, kSmallRows))
        steps.buckets_.push_back({.range_rows = rows, .num_ranges = count});
  steps.sort();
  return steps;
}

void GraphBuckets::sort() noexcept {
  std::ranges::stable_sort(buckets_, {}, cost_of);
}

uint32_t GraphBuckets::max_rows() const noexcept {
  uint32_t most = 0;
  for (const GraphBucket& bucket : buckets_) most = std::max(most, bucket.num_rows());
  return most;
}

const GraphBucket* GraphBuckets::find(std::span<const kernels::RowRange> runs, size_t num_segments,
                                      size_t num_pieces) const noexcept {
  uint64_t rows = 0;
  for (const kernels::RowRange& run : runs) rows += run.num_rows;
  if (rows == 0 || rows > runs.size() * uint64_t{kSmallRows}) return nullptr;
  for (const GraphBucket& bucket : buckets_) {  // by cost
    if (bucket.num_segments < num_segments || bucket.num_pieces < num_pieces) continue;
    uint64_t ranges = 0;
    for (const kernels::RowRange& run : runs)
      ranges += (run.num_rows + bucket.range_rows - 1) / bucket.range_rows;
    if (ranges > bucket.num_ranges) continue;
    // In a large batch, arithmetic on padding costs more than launches.
    const bool is_padded_much = bucket.num_rows() > std::max(uint64_t{kSmallRows}, rows + rows / 4);
    return is_padded_much ? nullptr : &bucket;
  }
  return nullptr;
}

uint32_t append_ranges(const GraphBucket* bucket, uint32_t first_row, uint32_t num_rows,
                       uint32_t slot, std::vector<kernels::RowRange>& ranges) noexcept {
  if (bucket == nullptr) {
    ranges.push_back({first_row, num_rows, slot});
    return first_row + num_rows;
  }
  const uint32_t step = bucket->range_rows;
  uint32_t row = first_row;
  for (; row < first_row + num_rows; row += step) ranges.push_back({row, step, slot});
  return row;
}

uint32_t fill_ranges(const GraphBucket& bucket, uint32_t next_row,
                     std::vector<kernels::RowRange>& ranges) noexcept {
  const uint32_t slot = ranges.empty() ? 0 : ranges.back().slot;
  for (; ranges.size() < bucket.num_ranges; next_row += bucket.range_rows)
    ranges.push_back({next_row, bucket.range_rows, slot});
  return next_row;
}

}  // namespace itif::runtime
