// Graph buckets: the few shapes that batches are padded to, so that a device with CUDA graphs can
// replay a captured graph for each (DeviceInfo::max_bucket_rows).
//
// A bucket is two or more ranges of equal rows: one pointer-array GEMM call, whichever tenants the
// ranges belong to. A tenant's rows take as many ranges as they need, padded at the end. Ranges
// that no tenant needs compute values that are never read. Segments and id pieces are padded with
// empty ones, to one of two sizes: for few requests, or for many short ones.
//
// In small batches (kSmallRows), launches cost more than arithmetic. Larger batches gain from a
// bucket if each of their tenants has few rows: a call for one tenant's rows then leaves most of
// the device idle, a call for all does not. They stay unpadded if padding would be more than a
// quarter of their rows. Batches of images have small buckets only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/args.h"

namespace itif::runtime {

struct GraphBucket {
  uint32_t range_rows = 0;
  uint32_t num_ranges = 0;
  uint32_t num_segments = 0;  // capacity
  uint32_t num_pieces = 0;    // capacity
  uint32_t num_images = 0;    // capacity

  uint32_t num_rows() const noexcept { return range_rows * num_ranges; }
};

class GraphBuckets {
 public:
  // The largest small batch, and the most rows per tenant in larger batches that have buckets.
  static constexpr uint32_t kSmallRows = 512;

  GraphBuckets() = default;  // no buckets
  // Makes buckets of up to max_rows rows. `image_tokens`: tokens per request of a group that takes
  // images, one request per range; 0: the group takes token ids.
  GraphBuckets(uint32_t max_rows, uint32_t image_tokens);
  // Makes buckets for a decoder's steps, which have neither segments nor pieces: small ones only.
  static GraphBuckets of_steps(uint32_t max_rows);

  // Returns the cheapest bucket that holds `runs` (one tenant's rows each), or nullptr if none
  // does, or if none suits them. The layout of a pass and its price both depend on it. num_pieces:
  // 0 if it is not known. Buckets with pieces hold at least two per segment, and eight more.
  // Allocates nothing.
  const GraphBucket* find(std::span<const kernels::RowRange> runs, size_t num_segments,
                          size_t num_pieces) const noexcept;
  // All buckets, cheapest first: those are used most often.
  std::span<const GraphBucket> all() const noexcept { return buckets_; }
  uint32_t max_rows() const noexcept;  // of the largest bucket

 private:
  void sort() noexcept;

  std::vector<GraphBucket> buckets_;
};

// Appends the ranges of a tenant's rows [first_row, first_row + num_rows): the bucket's equal
// ranges, or one range if `bucket` is null. Returns the row after the last, padding included.
uint32_t append_ranges(const GraphBucket* bucket, uint32_t first_row, uint32_t num_rows,
                       uint32_t slot, std::vector<kernels::RowRange>& ranges) noexcept;
// Appends the bucket's remaining ranges, from next_row on. Returns the row after the last.
uint32_t fill_ranges(const GraphBucket& bucket, uint32_t next_row,
                     std::vector<kernels::RowRange>& ranges) noexcept;

}  // namespace itif::runtime
