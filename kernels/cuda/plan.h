// The stream as an operator's host code sees it: it puts the operator's plan data into device
// memory, and hands out a launcher whose launches the key of the graph segment covers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/cuda/operators.h"
#include "kernels/decode_args.h"
#include "kernels/low_rank_args.h"
#include "kernels/thesis_args.h"

namespace itif::kernels::cuda {

class Plan {
 public:
  // Returns the device address of `values`. nullptr: there are no values, or there is no room for
  // them, which fails the batch.
  template <class T>
  const T* put(std::span<const T> values) {
    return reinterpret_cast<const T*>(put_bytes(std::as_bytes(values)));
  }
  // As put(), for values whose number differs between batches of the same graph key. Reserves room
  // for `capacity` values, so that the values put next keep their addresses. 0: rounds the number
  // up, which keeps the addresses while the numbers are similar.
  template <class T>
  const T* put_with_capacity(std::span<const T> values, size_t capacity = 0) {
    return reinterpret_cast<const T*>(
        put_bytes_with_capacity(std::as_bytes(values), capacity * sizeof(T)));
  }
  // As put(), for the slot of each row of `ranges`.
  virtual Rows rows(std::span<const RowRange> ranges) = 0;
  // As put(), for the segment number of each of `num_rows` rows; -1: in no segment.
  virtual const int32_t* segment_of_row(std::span<const PaddedSegment> segments,
                                        uint32_t num_rows) = 0;
  // As put(), for the index of each of `num_rows` rows in its segment; -1: in no segment.
  virtual const int32_t* index_in_segment(std::span<const SegmentRows> segments,
                                          uint32_t num_rows) = 0;

  // Returns the launcher of the launches that come next. They depend only on `what` and on the
  // operator's arguments without their spans. Call it after put().
  template <class... What>
  const Launcher& launcher(const What&... what) {
    static_assert((std::has_unique_object_representations_v<What> && ...), "no padding");
    std::array<std::byte, (sizeof(What) + ... + 0)> bytes;
    size_t at = 0;
    ((std::memcpy(bytes.data() + at, &what, sizeof what), at += sizeof what), ...);
    return launcher_for(bytes);
  }

 protected:
  ~Plan() = default;
  virtual const std::byte* put_bytes(std::span<const std::byte> bytes) = 0;
  virtual const std::byte* put_bytes_with_capacity(std::span<const std::byte> bytes,
                                                   size_t capacity_bytes) = 0;
  virtual const Launcher& launcher_for(std::span<const std::byte> what) = 0;
};

template <class T>
uint32_t count(std::span<const T> values) {
  return static_cast<uint32_t>(values.size());
}

}  // namespace itif::kernels::cuda
