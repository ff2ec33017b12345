#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda/memory/memory.h"
#include "device/cuda/memory/virtual_memory.h"
#include "device/slab_places.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kSlotAlignment = 256;  // needed by kernels and cuBLAS; buffers have it, too
// Slots are whole pieces, and can be shared, if that adds at most a slot's eighth.
constexpr size_t kMaxAddedShare = 8;

size_t round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

class CudaSlabMemory final : public SlabMemory {
 public:
  CudaSlabMemory(std::shared_ptr<Budget> budget, std::shared_ptr<VirtualMemory> memory,
                 CUdeviceptr address, size_t reserved_bytes, size_t stride_bytes,
                 uint32_t max_slots)
      : budget_(std::move(budget)),
        memory_(std::move(memory)),
        address_(address),
        reserved_bytes_(reserved_bytes),
        pieces_(reserved_bytes / memory_->piece_bytes()),
        num_holders_(pieces_.size()),
        places_(max_slots) {
    slab_ = {.base = reinterpret_cast<std::byte*>(address), .stride_bytes = stride_bytes};
    max_slots_ = max_slots;
  }
  ~CudaSlabMemory() override {
    for (uint32_t slot = 0; slot < max_slots_; ++slot)
      if (places_.holds(slot)) release(slot);
    memory_->free(address_, reserved_bytes_);
  }
  CudaSlabMemory(const CudaSlabMemory&) = delete;
  CudaSlabMemory& operator=(const CudaSlabMemory&) = delete;

  Status commit(uint32_t slot) override {
    CHECK(slot < max_slots_ && !places_.holds(slot));
    const Run all = pieces_of(slot);
    const Run fresh = held_by_none(all);
    const size_t bytes = fresh.count * memory_->piece_bytes();
    ITIF_TRY(budget_->take(bytes, "a slab's slot"));
    if (fresh.count > 0) {
      if (Status mapped = memory_->map(address_of(fresh), of(fresh)); !mapped) {
        budget_->give_back(bytes);
        return mapped;
      }
    }
    for (size_t i = 0; i < all.count; ++i) ++num_holders_[all.first + i];
    places_.take(slot);
    Status cleared = budget_->transfers().fill(slab_.at(slot), 0, slab_.stride_bytes,
                                               "cannot clear a slab's slot");
    if (!cleared) release(slot);
    return cleared;
  }
  bool can_share() const override { return slab_.stride_bytes % memory_->piece_bytes() == 0; }
  Status share(uint32_t slot, uint32_t with) override {
    CHECK(can_share() && !places_.holds(slot) && places_.holds(with));
    const Run mine = pieces_of(slot);
    std::ranges::copy(of(pieces_of(with)), of(mine).begin());
    ITIF_TRY(memory_->map_again(address_of(mine), of(mine)));
    for (size_t i = 0; i < mine.count; ++i) ++num_holders_[mine.first + i];
    places_.share(slot, with);
    return {};
  }
  void release(uint32_t slot) override {
    const bool is_last = places_.release(slot).has_value();
    const Run all = pieces_of(slot);
    for (size_t i = 0; i < all.count; ++i) --num_holders_[all.first + i];
    if (!is_last) return memory_->unmap_again(address_of(all), of(all));
    const Run left = held_by_none(all);
    if (left.count > 0) memory_->unmap(address_of(left), of(left));
    budget_->give_back(left.count * memory_->piece_bytes());
  }
  uint64_t used_bytes() const override { return places_.num_taken() * slab_.stride_bytes; }

 private:
  struct Run {
    size_t first = 0, count = 0;
  };
  Run pieces_of(uint32_t slot) const {
    const size_t bytes = memory_->piece_bytes();
    const size_t begin = slot * slab_.stride_bytes;
    const size_t first = begin / bytes;
    return {first, (begin + slab_.stride_bytes - 1) / bytes + 1 - first};
  }
  // Returns the pieces of a slot that no committed slot uses. They are adjacent: a slot shares only
  // its first and last piece.
  Run held_by_none(Run run) const {
    while (run.count > 0 && num_holders_[run.first] > 0) ++run.first, --run.count;
    while (run.count > 0 && num_holders_[run.first + run.count - 1] > 0) --run.count;
    return run;
  }
  CUdeviceptr address_of(const Run& run) const {
    return address_ + run.first * memory_->piece_bytes();
  }
  std::span<VirtualMemory::Piece> of(const Run& run) {
    return std::span(pieces_).subspan(run.first, run.count);
  }

  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<VirtualMemory> memory_;
  const CUdeviceptr address_;
  const size_t reserved_bytes_;
  std::vector<VirtualMemory::Piece> pieces_;
  std::vector<uint32_t> num_holders_;  // committed slots, by piece
  SlabPlaces places_;  // counts the slots that share pieces; kernels address slots by stride
};

}  // namespace

Result<std::unique_ptr<SlabMemory>> reserve_slab(std::shared_ptr<Budget> budget,
                                                 std::shared_ptr<VirtualMemory> memory,
                                                 size_t slot_bytes, uint32_t max_slots) {
  CHECK(slot_bytes > 0 && max_slots > 0);
  size_t stride_bytes = round_up(slot_bytes, kSlotAlignment);
  const size_t whole_bytes = round_up(slot_bytes, memory->piece_bytes());
  if (whole_bytes - stride_bytes <= stride_bytes / kMaxAddedShare) stride_bytes = whole_bytes;
  if (stride_bytes > SIZE_MAX / 4 / max_slots)
    return fail(Code::kResourceExhausted,
                "a slab exceeds the address space; lower the group's largest number of tenants");
  const size_t reserved_bytes = round_up(stride_bytes * max_slots, memory->piece_bytes());
  ITIF_ASSIGN(const CUdeviceptr address, memory->reserve(reserved_bytes));
  return std::make_unique<CudaSlabMemory>(std::move(budget), std::move(memory), address,
                                          reserved_bytes, stride_bytes, max_slots);
}

}  // namespace itif::device::cuda
