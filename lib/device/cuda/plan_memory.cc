#include "device/cuda/plan_memory.h"

#include <algorithm>
#include <utility>

namespace itif::device::cuda {

Result<PlanMemory> PlanMemory::make(std::shared_ptr<Budget> budget, size_t bytes) {
  PlanMemory memory;
  ITIF_ASSIGN(memory.host_, Pinned::allocate(bytes));
  ITIF_ASSIGN(memory.device_, allocate_buffer(std::move(budget), bytes));
  memory.pieces_.reserve(256);
  return memory;
}

void PlanMemory::clear() noexcept {
  pieces_.clear();
  used_ = copied_ = 0;
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

// A batch has a handful of pieces; those of a layer are the first to come again.
const PlanMemory::Piece* PlanMemory::find(Use use, std::span<const std::byte> source) const {
  for (const Piece& piece : pieces_)
    if (piece.use == use && piece.source.data() == source.data() &&
        piece.source.size() == source.size() &&
        std::memcmp(host_.data() + piece.source_offset, source.data(), source.size()) == 0)
      return &piece;
  return nullptr;
}

cudaError_t PlanMemory::copy(cudaStream_t stream) {
  const size_t end = std::min(used_, host_.bytes());  // beyond it put() has found no room
  const size_t begin = std::exchange(copied_, end);
  if (begin == end) return cudaSuccess;
  return cudaMemcpyAsync(device_->data() + begin, host_.data() + begin, end - begin,
                         cudaMemcpyHostToDevice, stream);
}

}  // namespace itif::device::cuda
