#include "device/sim/sim_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/host/memory.h"
#include "device/slab_places.h"

namespace itif::device {
namespace {

constexpr size_t kPageBytes = 4096;

size_t whole_pages(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kPageBytes - 1) / kPageBytes * kPageBytes;
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
      : budget_(budget), mapping_(std::move(mapping)), places_(max_slots) {
    slab_ = {.base = mapping_.data(), .stride_bytes = stride_bytes, .places = places_.data()};
    max_slots_ = max_slots;
  }
  ~SimSlab() override { budget_.give_back(places_.num_taken() * slab_.stride_bytes); }
  SimSlab(const SimSlab&) = delete;
  SimSlab& operator=(const SimSlab&) = delete;

  Status commit(uint32_t slot) override {
    ITIF_TRY(budget_.take(slab_.stride_bytes));
    places_.take(slot);
    return {};
  }
  uint64_t used_bytes() const override { return places_.num_taken() * slab_.stride_bytes; }
  bool can_share() const override { return true; }
  Status share(uint32_t slot, uint32_t with) override {
    places_.share(slot, with);
    return {};
  }
  void release(uint32_t slot) override {
    const std::optional<uint32_t> place = places_.release(slot);
    if (!place) return;
    madvise(slab_.base + *place * slab_.stride_bytes, slab_.stride_bytes, MADV_DONTNEED);
    budget_.give_back(slab_.stride_bytes);
  }

 private:
  SimBudget& budget_;
  LazyMapping mapping_;
  SlabPlaces places_;
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
