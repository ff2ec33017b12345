// Slabs in host memory. A slot's entry is at an offset from the slab's base (kernels::Slab), so
// that a slot can have an entry of another slab.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "device/host/memory.h"
#include "device/host/pages.h"

namespace itif::device {
namespace {

// The addresses of a slab's entries. Entries keep them while other slabs use these entries, so that
// the slab itself may need more addresses than its slots. Thread-safe.
class SlabAddresses {
 public:
  // `alignment` of entries: a page or a huge page; stride_bytes is a multiple of it.
  SlabAddresses(size_t stride_bytes, uint32_t max_slots, size_t alignment)
      : stride_bytes_(stride_bytes), max_slots_(max_slots), alignment_(alignment) {}

  // Reserves addresses for max_slots more entries. Errors: kResourceExhausted.
  Status reserve() {
    const std::lock_guard lock(mutex_);
    return reserve_locked();
  }
  // REQUIRES: reserve() has succeeded once.
  std::byte* base() const { return ranges_.front().base; }
  // Returns the slot's own address if that is free, else another one. Errors: kResourceExhausted.
  Result<std::byte*> take(uint32_t slot) {
    const std::lock_guard lock(mutex_);
    if (!ranges_.front().is_taken[slot]) return take(ranges_.front(), slot);
    for (Range& range : ranges_) {
      const auto free = std::ranges::find(range.is_taken, false);
      if (free == range.is_taken.end()) continue;
      return take(range, static_cast<size_t>(free - range.is_taken.begin()));
    }
    ITIF_TRY(reserve_locked());
    return take(ranges_.back(), 0);
  }
  // REQUIRES: an address from take(), which holds no pages.
  void give_back(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    for (Range& range : ranges_) {
      const auto at = reinterpret_cast<uintptr_t>(address);
      const auto begin = reinterpret_cast<uintptr_t>(range.base);
      if (at < begin || at >= begin + stride_bytes_ * max_slots_) continue;
      range.is_taken[(at - begin) / stride_bytes_] = false;
      return;
    }
    CHECK(false);
  }

 private:
  struct Range {
    LazyMapping mapping;
    std::byte* base = nullptr;  // the first multiple of the alignment
    std::vector<bool> is_taken;
  };
  Status reserve_locked() {
    const auto mapping_bytes = stride_bytes_ * max_slots_ + alignment_ - kPageBytes;
    ITIF_ASSIGN(LazyMapping mapping, LazyMapping::reserve(mapping_bytes));
    if (alignment_ == kHugePageBytes) madvise(mapping.data(), mapping.bytes(), MADV_HUGEPAGE);
    const auto address = reinterpret_cast<uintptr_t>(mapping.data());
    std::byte* const base = mapping.data() + (round_up_bytes(address, alignment_) - address);
    ranges_.push_back(
        {.mapping = std::move(mapping), .base = base, .is_taken = std::vector<bool>(max_slots_)});
    return {};
  }
  std::byte* take(Range& range, size_t place) const {
    range.is_taken[place] = true;
    return range.base + place * stride_bytes_;
  }

  const size_t stride_bytes_;
  const uint32_t max_slots_;
  const size_t alignment_;
  std::mutex mutex_;
  std::list<Range> ranges_;
};

// Pages of one entry, and their part of the budget.
class HostSlabEntry final : public SlabEntry {
 public:
  HostSlabEntry(std::shared_ptr<MemoryBudget> budget, std::shared_ptr<SlabAddresses> addresses,
                std::byte* data, size_t bytes)
      : budget_(std::move(budget)), addresses_(std::move(addresses)), data_(data), bytes_(bytes) {}
  ~HostSlabEntry() override {
    discard_pages(data_, bytes_);
    addresses_->give_back(data_);
    budget_->give_back(bytes_);
  }
  HostSlabEntry(const HostSlabEntry&) = delete;
  HostSlabEntry& operator=(const HostSlabEntry&) = delete;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<SlabAddresses> addresses_;
  std::byte* const data_;
  const size_t bytes_;
};

class HostSlabMemory final : public SlabMemory {
 public:
  HostSlabMemory(std::shared_ptr<MemoryBudget> budget, std::shared_ptr<SlabAddresses> addresses,
                 size_t stride_bytes, uint32_t max_slots)
      : budget_(std::move(budget)),
        addresses_(std::move(addresses)),
        entries_(max_slots),
        offsets_(max_slots) {
    slab_ = {.base = addresses_->base(), .stride_bytes = stride_bytes, .offsets = offsets_.data()};
    max_slots_ = max_slots;
    for (uint32_t slot = 0; slot < max_slots; ++slot) reset_offset(slot);
  }
  HostSlabMemory(const HostSlabMemory&) = delete;
  HostSlabMemory& operator=(const HostSlabMemory&) = delete;

  Status commit(uint32_t slot) override {
    CHECK(slot < max_slots_ && entries_[slot] == nullptr);
    ITIF_TRY(budget_->take(slab_.stride_bytes, "a slab's slot"));
    auto address = addresses_->take(slot);
    if (!address) {
      budget_->give_back(slab_.stride_bytes);
      return std::unexpected(std::move(address.error()));
    }
    // On error, it gives both back.
    auto entry = std::make_shared<HostSlabEntry>(budget_, addresses_, *address, slab_.stride_bytes);
    if (const int error = populate_pages(entry->data(), slab_.stride_bytes); error != 0)
      return fail(Code::kResourceExhausted,
                  fmt::format("cannot populate {} for a slab's slot: {}",
                              format_bytes(slab_.stride_bytes), errno_text(error)));
    hold(slot, std::move(entry));
    return {};
  }

  bool can_share() const override { return true; }
  std::shared_ptr<const SlabEntry> entry(uint32_t slot) const override {
    CHECK(slot < max_slots_ && entries_[slot] != nullptr);
    return entries_[slot];
  }
  Status share(uint32_t slot, const std::shared_ptr<const SlabEntry>& entry) override {
    CHECK(slot < max_slots_ && entries_[slot] == nullptr);
    auto shared = std::static_pointer_cast<const HostSlabEntry>(entry);
    CHECK(shared->bytes() == slab_.stride_bytes);
    hold(slot, std::move(shared));
    return {};
  }

  void release(uint32_t slot) override {
    CHECK(slot < max_slots_ && entries_[slot] != nullptr);
    entries_[slot].reset();
    reset_offset(slot);
  }

 private:
  void hold(uint32_t slot, std::shared_ptr<const HostSlabEntry> entry) {
    offsets_[slot] = entry->data() - slab_.base;
    entries_[slot] = std::move(entry);
  }
  void reset_offset(uint32_t slot) {
    offsets_[slot] = static_cast<ptrdiff_t>(slot * slab_.stride_bytes);
  }

  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<SlabAddresses> addresses_;
  std::vector<std::shared_ptr<const HostSlabEntry>> entries_;  // by slot; null: no memory
  std::vector<ptrdiff_t> offsets_;                             // by slot: kernels::Slab::offsets
};

}  // namespace

Result<std::unique_ptr<SlabMemory>> reserve_host_slab(std::shared_ptr<MemoryBudget> budget,
                                                      size_t slot_bytes, uint32_t max_slots) {
  CHECK(slot_bytes > 0 && max_slots > 0);
  // Slots are whole pages, so that each can be freed separately. Slots of 8 huge pages or more also
  // start on a huge page, which wastes little.
  size_t stride_bytes = round_up_bytes(slot_bytes, kPageBytes);
  if (stride_bytes >= 8 * kHugePageBytes) stride_bytes = round_up_bytes(slot_bytes, kHugePageBytes);
  // A mapping starts on a page; huge pages need the slots to start on one of theirs.
  const size_t alignment = stride_bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  const auto cannot = [&] {
    return fail(
        Code::kResourceExhausted,
        fmt::format("cannot reserve addresses for {} slots of {}; lower the group's largest "
                    "number of tenants",
                    max_slots, format_bytes(slot_bytes)));
  };
  if (slot_bytes > SIZE_MAX / 4 / max_slots) return cannot();
  auto addresses = std::make_shared<SlabAddresses>(stride_bytes, max_slots, alignment);
  if (!addresses->reserve()) return cannot();
  return std::make_unique<HostSlabMemory>(std::move(budget), std::move(addresses), stride_bytes,
                                          max_slots);
}

}  // namespace itif::device
