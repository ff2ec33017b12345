// Plan data of one batch on the device: the contents of its launches' spans (ranges, positions,
// segments, blocks). All layers share one copy.
//
// Pieces are written to pinned memory and copied together to the same offsets of device memory,
// ahead of the launches that read them. A span at the same host address with the same bytes is the
// same piece.
//
// All batches of a stream share the device memory, because their launches run in order. Equal
// launches therefore find their plan at the same address in every batch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "device/cuda/memory/memory.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

class PlanMemory {
 public:
  // Bytes for the batches of a stream: all operators' data by row and by segment, and a decoder
  // step's.
  static size_t bytes_of(const StreamLimits& limits) {
    const size_t of_steps = limits.max_blocks == 0
                                ? 0
                                : kStepAt + round_up(limits.max_blocks * sizeof(uint32_t), kRoom);
    return (size_t{1} << 20) + size_t{64} * limits.max_tokens + size_t{1024} * limits.max_segments +
           of_steps;
  }
  // Errors: kResourceExhausted.
  static Result<PlanMemory> make(std::shared_ptr<Buffer> device);

  // Removes all pieces. REQUIRES: no launch reads them any more.
  void clear() noexcept;
  // Aligns the pieces that follow. They keep their addresses while the data before them varies by
  // some KiB.
  void end_graph_segment() noexcept {
    used_ = round_up(used_, kPartRoom);
    pieces_.clear();  // what follows must not depend on them
  }
  // Starts the pieces that follow at kStepAt. They keep their addresses with any data before them,
  // up to kStepAt bytes.
  void begin_step() noexcept {
    pieces_.clear();
    if (used_ < kStepAt) leave_room(kStepAt);
  }
  // Copies the pieces put since the last copy(), ahead of the stream's next launches.
  cudaError_t copy(cudaStream_t stream);

  // Returns the device address of `values`, for launches after the next copy(). nullptr: there are
  // no values, or there is no room. The launcher keeps the latter as an error.
  template <class T>
  const T* put(const kernels::cuda::Launcher& launch, std::span<const T> values) {
    return made_of<T>(launch, Use::kItself, values, values.size(),
                      [&](T* to) { std::memcpy(to, values.data(), values.size_bytes()); });
  }
  // As put(), for values whose number differs between batches of the same graph key. Reserves room
  // for `capacity` values, so that the values put next keep their addresses. 0: rounds the number
  // up, which keeps the addresses while the numbers are similar.
  template <class T>
  const T* put_with_capacity(const kernels::cuda::Launcher& launch, std::span<const T> values,
                             size_t capacity = 0) {
    const size_t before = used_;
    const T* put = this->put(launch, values);
    if (used_ != before)
      leave_room(round_up(
          before + round_up(std::max(capacity, values.size()) * sizeof(T), kAlignment), kRoom));
    return put;
  }
  // As put(), for the slot of each row of `ranges`.
  kernels::cuda::Rows rows(const kernels::cuda::Launcher& launch,
                           std::span<const kernels::RowRange> ranges);
  // As put(), for the segment number of each of `num_rows` rows; -1: in no segment.
  const int32_t* segment_of_row(const kernels::cuda::Launcher& launch,
                                std::span<const kernels::PaddedSegment> segments,
                                uint32_t num_rows);
  // As put(), for the index of each of `num_rows` rows in its segment; -1: in no segment.
  const int32_t* index_in_segment(const kernels::cuda::Launcher& launch,
                                  std::span<const kernels::SegmentRows> segments,
                                  uint32_t num_rows);
  struct Tiles {
    const kernels::cuda::AttentionTile* tiles = nullptr;
    uint32_t count = 0;
  };
  // bias: added by the attention; its rows hold the segments. nullptr: none.
  Tiles attention_tiles(const kernels::cuda::Launcher& launch, const kernels::Attention& args,
                        const kernels::BiasActivation* bias);

  // The keys of each row; nullptr: the segments share no score matrix, or there is no room.
  const kernels::cuda::KeyRange* attention_keys(const kernels::cuda::Launcher& launch,
                                                const kernels::Attention& args);

  // The data that a piece holds.
  enum class Use : uint8_t {
    kItself,          // the source
    kSlots,           // of rows, from ranges
    kTiles,           // of attention, from segments or score matrices, and ranges
    kKeyRanges,       // of attention, from segments and score matrices
    kSegmentOfRow,    // from segments
    kIndexInSegment,  // from segments
    kRaggedRows,      // of cuDNN's attention, from segments
  };
  // As put(), for `count` values derived from `source`, `beside` and `variant`. fill(T*) writes
  // them unless an equal piece exists.
  template <class T, class Source, class Fill>
  const T* made_of(const kernels::cuda::Launcher& launch, Use use, std::span<const Source> source,
                   size_t count, const Fill& fill, std::span<const std::byte> beside = {},
                   uint32_t variant = 0) {
    if (source.empty() || count == 0) return nullptr;
    const Sources sources = {std::as_bytes(source), beside};
    const Piece* piece = find(use, variant, sources);
    if (piece == nullptr) {
      const Piece made = make(use, variant, sources, count * sizeof(T));
      if (used_ > host_.bytes()) {
        launch.keep(cudaErrorMemoryAllocation);
        return nullptr;
      }
      if (use != Use::kItself) {
        std::byte* to = host_.data() + made.source_offset;
        for (const auto& bytes : sources) to = std::ranges::copy(bytes, to).out;
      }
      fill(reinterpret_cast<T*>(host_.data() + made.offset));
      piece = &pieces_.emplace_back(made);
    }
    return reinterpret_cast<const T*>(device_->data() + piece->offset);
  }

 private:
  static constexpr size_t kAlignment = 256, kRoom = 4096, kPartRoom = 16384, kStepAt = 256 << 10,
                          kMinGap = 64 << 10;  // costs as much as one more copy
  static constexpr size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
  using Sources = std::array<std::span<const std::byte>, 2>;
  // A piece derived from the bytes at `sources`. Pinned memory keeps a copy of them to compare
  // with.
  struct Piece {
    Use use = Use::kItself;
    uint32_t variant = 0;
    Sources sources;
    size_t source_offset = 0, offset = 0;
  };
  Piece make(Use use, uint32_t variant, const Sources& sources, size_t bytes) {
    Piece piece{.use = use,
                .variant = variant,
                .sources = sources,
                .source_offset = 0,
                .offset = take(bytes)};
    piece.source_offset =
        use == Use::kItself ? piece.offset : take(sources[0].size() + sources[1].size());
    return piece;
  }
  const Piece* find(Use use, uint32_t variant, const Sources& sources) const;
  struct Gap {
    size_t from = 0, to = 0;
  };
  // Places the next piece at `at`. A gap of kMinGap or more is not copied.
  void leave_room(size_t at) {
    if (at > host_.bytes()) return;
    if (at - used_ >= kMinGap) gaps_.push_back({used_, at});
    used_ = at;
  }
  size_t take(size_t bytes) {
    const size_t at = used_;
    used_ += round_up(bytes, kAlignment);
    return at;
  }

  Pinned host_;
  std::shared_ptr<Buffer> device_;
  std::vector<Piece> pieces_;
  size_t used_ = 0, copied_ = 0;
  std::vector<Gap> gaps_;  // within what is not copied yet, ascending
};

}  // namespace itif::device::cuda
