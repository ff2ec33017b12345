// Plan data of one batch on the device: what the spans of launches show (ranges, positions, segments, blocks),
// copied once though every layer's launches show it again.
//
// A piece is written to pinned memory, and all of them are copied to the same offsets of device memory ahead of the
// launches that read them. Whatever stands at the same host address with the same bytes as before is the same piece.
// The device's memory is that of all batches of a stream, whose launches run in order: launches alike find their plan
// at the same address, whichever batch they are of.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "device/cuda/memory.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

class PlanMemory {
 public:
  // That the batches of a stream need: by row and by segment, of all operators, and for a decoder's step.
  static size_t bytes_of(const StreamLimits& limits) {
    const size_t of_steps = limits.max_blocks == 0
                                ? 0
                                : kStepAt + round_up(limits.max_blocks * sizeof(uint32_t), kRoom);
    return (size_t{1} << 20) + size_t{64} * limits.max_tokens + size_t{1024} * limits.max_segments +
           of_steps;
  }
  // Errors: kResourceExhausted.
  static Result<PlanMemory> make(std::shared_ptr<Buffer> device);

  // From here on nothing is there. REQUIRES: what was put has been read.
  void clear() noexcept;
  // What is put from here on stands where it did though what stands before it, up to some KiB, is another.
  void begin_part() noexcept {
    used_ = round_up(used_, kPartRoom);
    pieces_.clear();  // nor does it depend on what they are
  }
  // Likewise though nothing, or much more, stands before it: up to kStepAt bytes.
  void begin_step() noexcept {
    pieces_.clear();
    if (used_ < kStepAt) leave_room(kStepAt);
  }
  // Copies what was put since the last time, ahead of what the stream is given next.
  cudaError_t copy(cudaStream_t stream);

  // Where `values` stand on the device for launches behind the next copy(). nullptr: there are none, or
  // there is no room, which the launcher keeps as an error.
  template <class T>
  const T* put(const kernels::cuda::Launcher& launch, std::span<const T> values) {
    return made_of<T>(launch, Use::kItself, values, values.size(),
                      [&](T* to) { std::memcpy(to, values.data(), values.size_bytes()); });
  }
  // Likewise values whose number differs from batch to batch: what is put behind them stands where it did, if they were
  // as many, or about as many where `most` is 0.
  template <class T>
  const T* put_roomily(const kernels::cuda::Launcher& launch, std::span<const T> values,
                       size_t most = 0) {
    const size_t before = used_;
    const T* put = this->put(launch, values);
    if (used_ != before)
      leave_room(round_up(before + round_up(std::max(most, values.size()) * sizeof(T), kAlignment),
                          kRoom));
    return put;
  }
  // Likewise the slot of each row of `ranges`.
  kernels::cuda::Rows rows(const kernels::cuda::Launcher& launch,
                           std::span<const kernels::RowRange> ranges);
  // Of each of `num_rows` rows the number of its segment; -1: of none.
  const int32_t* segment_of_row(const kernels::cuda::Launcher& launch,
                                std::span<const kernels::PaddedSegment> segments,
                                uint32_t num_rows);
  // Of each of `num_rows` rows its number within its segment; -1: of none.
  const int32_t* index_in_segment(const kernels::cuda::Launcher& launch,
                                  std::span<const kernels::SegmentRows> segments,
                                  uint32_t num_rows);
  struct Tiles {
    const kernels::cuda::AttentionTile* tiles = nullptr;
    uint32_t count = 0;
  };
  // bias: what attention adds, of rows that hold the segments; nullptr: nothing.
  Tiles attention_tiles(const kernels::cuda::Launcher& launch, const kernels::Attention& args,
                        const kernels::BiasActivation* bias);

  // Likewise what follows from `source`, and from what stands `beside` it: `count` values, which fill(T*) writes unless
  // they are there.
  enum class Use : uint8_t {
    kItself,
    kSlots,         // of rows, from ranges
    kTiles,         // of attention, from segments beside ranges
    kSegmentOfRow,  // from segments; likewise
    kIndexInSegment,
    kRaggedRows,  // of cuDNN's attention
  };
  // variant: what else it follows from.
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
                          kLeastGap = 64 << 10;  // which takes as long as another copy
  static constexpr size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
  using Sources = std::array<std::span<const std::byte>, 2>;
  // Made of the bytes at `sources`, which stand in pinned memory, too, to be compared with.
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
  // What is put next stands at `at`. Of much room between, nothing is copied.
  void leave_room(size_t at) {
    if (at > host_.bytes()) return;
    if (at - used_ >= kLeastGap) gaps_.push_back({used_, at});
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
  std::vector<Gap> gaps_;  // of what is not copied yet, in their order
};

}  // namespace itif::device::cuda
