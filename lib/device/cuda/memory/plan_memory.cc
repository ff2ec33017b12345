#include "device/cuda/memory/plan_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace itif::device::cuda {

Result<PlanMemory> PlanMemory::make(std::shared_ptr<Buffer> device) {
  PlanMemory memory;
  ITIF_ASSIGN(memory.host_, Pinned::allocate(device->bytes()));
  memory.device_ = std::move(device);
  memory.pieces_.reserve(256);
  memory.gaps_.reserve(16);
  return memory;
}

void PlanMemory::clear() noexcept {
  pieces_.clear();
  used_ = copied_ = 0;
  gaps_.clear();
}

kernels::cuda::Rows PlanMemory::rows(const kernels::cuda::Launcher& launch,
                                     std::span<const kernels::RowRange> ranges) {
  if (ranges.empty()) return {};
  const uint32_t count = ranges.back().first_row + ranges.back().num_rows;
  const auto* slots = made_of<uint32_t>(launch, Use::kSlots, ranges, count, [&](uint32_t* slot) {
    for (const kernels::RowRange& range : ranges)
      slot = std::fill_n(slot, range.num_rows, range.slot);
  });
  return {.count = slots == nullptr ? 0 : count, .slots = slots};
}

const int32_t* PlanMemory::segment_of_row(const kernels::cuda::Launcher& launch,
                                          std::span<const kernels::PaddedSegment> segments,
                                          uint32_t num_rows) {
  return made_of<int32_t>(launch, Use::kSegmentOfRow, segments, num_rows, [&](int32_t* of_row) {
    std::fill_n(of_row, num_rows, -1);
    for (size_t i = 0; i < segments.size(); ++i)
      std::fill_n(of_row + segments[i].first_row, segments[i].num_rows, static_cast<int32_t>(i));
  });
}

const int32_t* PlanMemory::index_in_segment(const kernels::cuda::Launcher& launch,
                                            std::span<const kernels::SegmentRows> segments,
                                            uint32_t num_rows) {
  return made_of<int32_t>(launch, Use::kIndexInSegment, segments, num_rows, [&](int32_t* of_row) {
    std::fill_n(of_row, num_rows, -1);
    for (const kernels::SegmentRows& segment : segments)
      std::iota(of_row + segment.first_row, of_row + segment.first_row + segment.num_rows, 0);
  });
}

PlanMemory::Tiles PlanMemory::attention_tiles(const kernels::cuda::Launcher& launch,
                                              const kernels::Attention& args,
                                              const kernels::BiasActivation* bias) {
  const auto ranges = bias == nullptr ? std::span<const kernels::RowRange>() : bias->ranges;
  const uint32_t queries =
      kernels::cuda::attention_tile_queries(launch.activation(), args.head_size);
  const auto segments = args.score_matrices.empty() ? args.segments : args.score_matrices;
  uint32_t used = 0;
  for (const kernels::SegmentRows& segment : segments)
    used += kernels::cuda::div_up(segment.num_rows, queries);
  // For a bucket, the most tiles that its segments can have: all but each segment's last are full.
  const auto num_segments = static_cast<uint32_t>(segments.size());
  const uint32_t count =
      args.max_bucket_rows == 0 ? used : args.max_bucket_rows / queries + num_segments;
  CHECK(used <= count);
  const auto* tiles = made_of<kernels::cuda::AttentionTile>(
      launch, Use::kTiles, segments, count,
      [&](kernels::cuda::AttentionTile* tile) {
        auto range = ranges.begin();
        for (const kernels::SegmentRows& segment : segments) {
          if (segment.num_rows == 0) continue;
          while (range != ranges.end() && range->first_row + range->num_rows <= segment.first_row)
            ++range;
          const uint32_t slot = range == ranges.end() ? 0 : range->slot;
          for (uint32_t query = 0; query < segment.num_rows; query += queries)
            *tile++ = {segment.first_row, segment.num_rows, query, slot};
        }
        std::fill_n(tile, count - used, kernels::cuda::AttentionTile{});
      },
      std::as_bytes(ranges), queries);
  return {tiles, count};
}

const kernels::cuda::KeyRange* PlanMemory::attention_keys(const kernels::cuda::Launcher& launch,
                                                          const kernels::Attention& args) {
  if (args.score_matrices.empty()) return nullptr;
  const kernels::SegmentRows& last = args.score_matrices.back();
  const uint32_t count =
      args.max_bucket_rows == 0 ? last.first_row + last.num_rows : args.max_bucket_rows;
  return made_of<kernels::cuda::KeyRange>(
      launch, Use::kKeyRanges, args.segments, count,
      [&](kernels::cuda::KeyRange* keys) {
        std::fill_n(keys, count, kernels::cuda::KeyRange{});
        auto matrix = args.score_matrices.begin();
        for (const kernels::SegmentRows& segment : args.segments) {
          if (segment.num_rows == 0) continue;
          while (matrix->first_row + matrix->num_rows <= segment.first_row) ++matrix;
          const uint32_t begin = segment.first_row - matrix->first_row;
          std::fill_n(keys + segment.first_row, segment.num_rows,
                      kernels::cuda::KeyRange{begin, begin + segment.num_rows});
        }
      },
      std::as_bytes(args.score_matrices));
}

// Searches linearly: a batch has few pieces, and those that layers repeat come first.
const PlanMemory::Piece* PlanMemory::find(Use use, uint32_t variant, const Sources& sources) const {
  const auto stands = [&](size_t offset, std::span<const std::byte> there,
                          std::span<const std::byte> asked) {
    return there.data() == asked.data() && there.size() == asked.size() &&
           (asked.empty() || std::memcmp(host_.data() + offset, asked.data(), asked.size()) == 0);
  };
  for (const Piece& piece : pieces_)
    if (piece.use == use && piece.variant == variant &&
        stands(piece.source_offset, piece.sources[0], sources[0]) &&
        stands(piece.source_offset + sources[0].size(), piece.sources[1], sources[1]))
      return &piece;
  return nullptr;
}

cudaError_t PlanMemory::copy(cudaStream_t stream) {
  const size_t end = std::min(used_, host_.bytes());  // put() found no room beyond it
  const auto copy = [&](size_t from, size_t to) {
    if (from == to) return cudaSuccess;
    return cudaMemcpyAsync(device_->data() + from, host_.data() + from, to - from,
                           cudaMemcpyHostToDevice, stream);
  };
  size_t begin = std::exchange(copied_, end);
  for (const Gap& gap : gaps_) {
    if (const cudaError_t error = copy(begin, gap.from); error != cudaSuccess) return error;
    begin = gap.to;
  }
  gaps_.clear();
  return copy(begin, end);
}

}  // namespace itif::device::cuda
