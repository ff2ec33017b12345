#include "device/sim/sim_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "device/host/memory.h"
#include "device/host/pages.h"

namespace itif::device {
namespace {

size_t whole_pages(size_t bytes) {
  return round_up_bytes(std::max<size_t>(bytes, 1), kPageBytes);
}

class SimBuffer final : public Buffer {
 public:
  SimBuffer(SimBudget& budget, LazyMapping mapping, size_t bytes)
      : budget_(budget), mapping_(std::move(mapping)) {
    data_ = mapping_.data();
    bytes_ = bytes;
  }
  ~SimBuffer() override { budget_.give_back(mapping_.bytes()); }
  SimBuffer(const SimBuffer&) = delete;
  SimBuffer& operator=(const SimBuffer&) = delete;

 private:
  SimBudget& budget_;
  LazyMapping mapping_;
};

class SimSlab final : public SlabMemory {
 public:
  SimSlab(SimBudget& budget, LazyMapping mapping, size_t stride_bytes, uint32_t max_slots)
      : budget_(budget), mapping_(std::move(mapping)), is_held_(max_slots) {
    slab_ = {.base = mapping_.data(), .stride_bytes = stride_bytes};
    max_slots_ = max_slots;
  }
  ~SimSlab() override {
    budget_.give_back(static_cast<size_t>(std::ranges::count(is_held_, true)) * slab_.stride_bytes);
  }
  SimSlab(const SimSlab&) = delete;
  SimSlab& operator=(const SimSlab&) = delete;

  Status commit(uint32_t slot) override {
    CHECK(slot < max_slots_ && !is_held_[slot]);
    ITIF_TRY(budget_.take(slab_.stride_bytes));
    is_held_[slot] = true;
    return {};
  }
  void release(uint32_t slot) override {
    CHECK(slot < max_slots_ && is_held_[slot]);
    is_held_[slot] = false;
    madvise(slab_.at(slot), slab_.stride_bytes, MADV_DONTNEED);
    budget_.give_back(slab_.stride_bytes);
  }

 private:
  SimBudget& budget_;
  LazyMapping mapping_;
  std::vector<bool> is_held_;  // by slot
};

}  // namespace

Status SimBudget::take(size_t bytes) {
  if (bytes > available_bytes())
    return fail(
        Code::kResourceExhausted,
        fmt::format("{} are needed, but {} of the simulated device's {} are taken",
                    format_bytes(bytes), format_bytes(used_bytes_), format_bytes(limit_bytes_)));
  used_bytes_ += bytes;
  return {};
}

void SimBudget::give_back(size_t bytes) noexcept {
  CHECK(bytes <= used_bytes_);
  used_bytes_ -= bytes;
}

Result<std::unique_ptr<Buffer>> allocate_sim_buffer(SimBudget& budget, size_t bytes) {
  ITIF_ASSIGN(LazyMapping mapping, LazyMapping::reserve(whole_pages(bytes)));
  ITIF_TRY(budget.take(whole_pages(bytes)));
  return std::make_unique<SimBuffer>(budget, std::move(mapping), bytes);
}

Result<std::unique_ptr<SlabMemory>> reserve_sim_slab(SimBudget& budget, size_t slot_bytes,
                                                     uint32_t max_slots) {
  CHECK(slot_bytes > 0 && max_slots > 0);
  ITIF_ASSIGN(LazyMapping mapping, LazyMapping::reserve(whole_pages(slot_bytes) * max_slots));
  return std::make_unique<SimSlab>(budget, std::move(mapping), whole_pages(slot_bytes), max_slots);
}

}  // namespace itif::device
