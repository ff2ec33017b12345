#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda/memory/memory.h"
#include "device/cuda/memory/virtual_memory.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kSlotAlignment = 256;  // needed by kernels and cuBLAS; buffers have it, too
// Slots are whole pieces, and can be shared, if that adds at most a slot's eighth.
constexpr size_t kMaxAddedShare = 8;

size_t round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

// Both kinds of slabs: addresses for all slots.
class CudaSlabMemory : public SlabMemory {
 public:
  CudaSlabMemory(std::shared_ptr<Budget> budget, std::shared_ptr<VirtualMemory> memory,
                 CUdeviceptr address, size_t reserved_bytes, size_t stride_bytes,
                 uint32_t max_slots)
      : budget_(std::move(budget)),
        memory_(std::move(memory)),
        address_(address),
        reserved_bytes_(reserved_bytes) {
    slab_ = {.base = reinterpret_cast<std::byte*>(address), .stride_bytes = stride_bytes};
    max_slots_ = max_slots;
  }
  // REQUIRES: nothing is mapped.
  ~CudaSlabMemory() override { memory_->free(address_, reserved_bytes_); }
  CudaSlabMemory(const CudaSlabMemory&) = delete;
  CudaSlabMemory& operator=(const CudaSlabMemory&) = delete;

 protected:
  Status clear(uint32_t slot) {
    return budget_->transfers().fill(slab_.at(slot), 0, slab_.stride_bytes,
                                     "cannot clear a slab's slot");
  }

  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<VirtualMemory> memory_;
  const CUdeviceptr address_;
  const size_t reserved_bytes_;
};

// The pieces of one slot, and their part of the budget.
class CudaSlabEntry final : public SlabEntry {
 public:
  CudaSlabEntry(std::shared_ptr<Budget> budget, std::shared_ptr<VirtualMemory> memory,
                std::vector<VirtualMemory::Piece> pieces)
      : budget_(std::move(budget)), memory_(std::move(memory)), pieces_(std::move(pieces)) {}
  ~CudaSlabEntry() override {
    memory_->release(pieces_);
    budget_->give_back(pieces_.size() * memory_->piece_bytes());
  }
  CudaSlabEntry(const CudaSlabEntry&) = delete;
  CudaSlabEntry& operator=(const CudaSlabEntry&) = delete;
  std::span<const VirtualMemory::Piece> pieces() const { return pieces_; }

 private:
  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<VirtualMemory> memory_;
  const std::vector<VirtualMemory::Piece> pieces_;
};

// Slots of whole pieces. Each maps the pieces of its entry at its own addresses.
class SharedSlabMemory final : public CudaSlabMemory {
 public:
  template <class... Args>
  explicit SharedSlabMemory(Args&&... args)
      : CudaSlabMemory(std::forward<Args>(args)...), entries_(max_slots_) {}
  ~SharedSlabMemory() override {
    for (uint32_t slot = 0; slot < max_slots_; ++slot)
      if (entries_[slot] != nullptr) release(slot);
  }

  Status commit(uint32_t slot) override {
    CHECK(slot < max_slots_ && entries_[slot] == nullptr);
    ITIF_TRY(budget_->take(slab_.stride_bytes, "a slab's slot"));
    std::vector<VirtualMemory::Piece> pieces(slab_.stride_bytes / memory_->piece_bytes());
    if (Status mapped = memory_->map(address_of(slot), pieces); !mapped) {
      budget_->give_back(slab_.stride_bytes);
      return mapped;
    }
    entries_[slot] = std::make_shared<CudaSlabEntry>(budget_, memory_, std::move(pieces));
    Status cleared = clear(slot);
    if (!cleared) release(slot);
    return cleared;
  }
  bool can_share() const override { return true; }
  std::shared_ptr<const SlabEntry> entry(uint32_t slot) const override {
    CHECK(slot < max_slots_ && entries_[slot] != nullptr);
    return entries_[slot];
  }
  Status share(uint32_t slot, const std::shared_ptr<const SlabEntry>& entry) override {
    CHECK(slot < max_slots_ && entries_[slot] == nullptr);
    auto shared = std::static_pointer_cast<const CudaSlabEntry>(entry);
    CHECK(shared->pieces().size() * memory_->piece_bytes() == slab_.stride_bytes);
    ITIF_TRY(memory_->map_again(address_of(slot), shared->pieces()));
    entries_[slot] = std::move(shared);
    return {};
  }
  void release(uint32_t slot) override {
    CHECK(slot < max_slots_ && entries_[slot] != nullptr);
    memory_->unmap_again(address_of(slot), entries_[slot]->pieces());
    entries_[slot].reset();
  }

 private:
  CUdeviceptr address_of(uint32_t slot) const { return address_ + slot * slab_.stride_bytes; }

  std::vector<std::shared_ptr<const CudaSlabEntry>> entries_;  // by slot; null: no memory
};

// Slots whose ends are within a piece, which the next slot uses, too.
class AdjacentSlabMemory final : public CudaSlabMemory {
 public:
  template <class... Args>
  explicit AdjacentSlabMemory(Args&&... args)
      : CudaSlabMemory(std::forward<Args>(args)...),
        pieces_(reserved_bytes_ / memory_->piece_bytes()),
        num_slots_(pieces_.size()),
        has_memory_(max_slots_) {}
  ~AdjacentSlabMemory() override {
    for (uint32_t slot = 0; slot < max_slots_; ++slot)
      if (has_memory_[slot]) release(slot);
  }

  Status commit(uint32_t slot) override {
    CHECK(slot < max_slots_ && !has_memory_[slot]);
    const Run all = pieces_of(slot);
    const Run fresh = unused(all);
    const size_t bytes = fresh.count * memory_->piece_bytes();
    ITIF_TRY(budget_->take(bytes, "a slab's slot"));
    if (fresh.count > 0) {
      if (Status mapped = memory_->map(address_of(fresh), of(fresh)); !mapped) {
        budget_->give_back(bytes);
        return mapped;
      }
    }
    for (size_t i = 0; i < all.count; ++i) ++num_slots_[all.first + i];
    has_memory_[slot] = true;
    Status cleared = clear(slot);
    if (!cleared) release(slot);
    return cleared;
  }
  void release(uint32_t slot) override {
    CHECK(slot < max_slots_ && has_memory_[slot]);
    has_memory_[slot] = false;
    const Run all = pieces_of(slot);
    for (size_t i = 0; i < all.count; ++i) --num_slots_[all.first + i];
    const Run left = unused(all);
    if (left.count > 0) memory_->unmap(address_of(left), of(left));
    budget_->give_back(left.count * memory_->piece_bytes());
  }

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
  // Returns the pieces of a slot that no committed slot uses. They are adjacent: a slot has only
  // its first and last piece in common with others.
  Run unused(Run run) const {
    while (run.count > 0 && num_slots_[run.first] > 0) ++run.first, --run.count;
    while (run.count > 0 && num_slots_[run.first + run.count - 1] > 0) --run.count;
    return run;
  }
  CUdeviceptr address_of(const Run& run) const {
    return address_ + run.first * memory_->piece_bytes();
  }
  std::span<VirtualMemory::Piece> of(const Run& run) {
    return std::span(pieces_).subspan(run.first, run.count);
  }

  std::vector<VirtualMemory::Piece> pieces_;
  std::vector<uint32_t> num_slots_;  // committed slots, by piece
  std::vector<bool> has_memory_;     // by slot
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
  if (stride_bytes == whole_bytes)
    return std::make_unique<SharedSlabMemory>(std::move(budget), std::move(memory), address,
                                              reserved_bytes, stride_bytes, max_slots);
  return std::make_unique<AdjacentSlabMemory>(std::move(budget), std::move(memory), address,
                                              reserved_bytes, stride_bytes, max_slots);
}

}  // namespace itif::device::cuda
