#include "device/host/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/host/cgroup_memory.h"
#include "device/slab_places.h"

namespace itif::device {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = 2u << 20;
// Left to the rest of the system.
constexpr size_t kReserveBytes = 64u << 20;

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

size_t mem_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  size_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<size_t>::max();
}

// Memory is allocated and freed in pieces. Meanwhile the kernel holds a lock of the process, which
// other threads may need, and it does not interrupt itself within a piece on some kernels.
constexpr size_t kPieceBytes = 2 * kHugePageBytes;

template <class Work>
void for_each_piece(std::byte* data, size_t bytes, const Work& work) {
  for (size_t at = 0; at < bytes; at += kPieceBytes)
    work(data + at, std::min(kPieceBytes, bytes - at));
}

// Frees the pages of a mapping, which then reads as zero.
void discard(std::byte* data, size_t bytes) {
  for_each_piece(data, bytes,
                 [](std::byte* at, size_t size) { (void)madvise(at, size, MADV_DONTNEED); });
}

// Allocates the pages of a piece. Returns 0 or errno: ENOMEM if a limit does not allow it.
int populate_piece(std::byte* data, size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
  while (madvise(data, bytes, kPopulateWrite) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    // An older kernel: touch every page.
    for (size_t i = 0; i < bytes; i += kPageBytes) *reinterpret_cast<volatile char*>(data + i) = 0;
    return 0;
  }
  return 0;
}

// As populate_piece(), for a whole mapping.
int populate(std::byte* data, size_t bytes) {
  int error = 0;
  for_each_piece(data, bytes, [&](std::byte* at, size_t size) {
    if (error == 0) error = populate_piece(at, size);
  });
  return error;
}

std::byte* map(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

class HostBuffer final : public Buffer {
 public:
  HostBuffer(std::shared_ptr<MemoryBudget> budget, std::byte* data, size_t bytes,
             size_t mapped_bytes)
      : budget_(std::move(budget)), mapped_bytes_(mapped_bytes) {
    data_ = data;
    bytes_ = bytes;
  }
  ~HostBuffer() override {
    discard(data_, mapped_bytes_);
    munmap(data_, mapped_bytes_);
    budget_->give_back(mapped_bytes_);
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

 private:
  std::shared_ptr<MemoryBudget> budget_;
  size_t mapped_bytes_;
};

class HostSlabMemory final : public SlabMemory {
 public:
  // Slots begin at the first multiple of `alignment` in `mapping`.
  HostSlabMemory(std::shared_ptr<MemoryBudget> budget, LazyMapping mapping, size_t alignment,
                 size_t stride_bytes, uint32_t max_slots)
      : budget_(std::move(budget)), mapping_(std::move(mapping)), places_(max_slots) {
    const auto address = reinterpret_cast<uintptr_t>(mapping_.data());
    slab_ = {.base = mapping_.data() + (round_up(address, alignment) - address),
             .stride_bytes = stride_bytes,
             .places = places_.data()};
    max_slots_ = max_slots;
  }
  ~HostSlabMemory() override { budget_->give_back(places_.num_taken() * slab_.stride_bytes); }
  HostSlabMemory(const HostSlabMemory&) = delete;
  HostSlabMemory& operator=(const HostSlabMemory&) = delete;

  Status commit(uint32_t slot) override {
    ITIF_TRY(budget_->take(slab_.stride_bytes, "a slab's slot"));
    places_.take(slot);
    if (const int error = populate(slab_.at(slot), slab_.stride_bytes); error != 0) {
      release(slot);
      return fail(Code::kResourceExhausted,
                  fmt::format("cannot populate {} for a slab's slot: {}",
                              format_bytes(slab_.stride_bytes), errno_text(error)));
    }
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
    discard(slab_.base + *place * slab_.stride_bytes, slab_.stride_bytes);
    budget_->give_back(slab_.stride_bytes);
  }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  LazyMapping mapping_;
  SlabPlaces places_;
};

}  // namespace

size_t available_system_bytes() {
  const size_t available = std::min(mem_available_bytes(),
                                    cgroup_available_bytes("/proc/self/cgroup", "/sys/fs/cgroup"));
  return available > kReserveBytes ? available - kReserveBytes : 0;
}

size_t MemoryBudget::available_bytes() const {
  const size_t system = available_system_bytes();
  if (limit_bytes_ == 0) return system;
  const size_t used = used_bytes();
  return std::min(system, limit_bytes_ > used ? limit_bytes_ - used : 0);
}

Status MemoryBudget::take(size_t bytes, const char* what) {
  const size_t used = used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit_bytes_ != 0 && (used > limit_bytes_ || bytes > limit_bytes_ - used)) {
    give_back(bytes);
    return fail(
        Code::kResourceExhausted,
        fmt::format("{} needs {}, but {} of the device's limit of {} are taken; remove a tenant "
                    "or raise the limit",
                    what, format_bytes(bytes), format_bytes(used), format_bytes(limit_bytes_)));
  }
  if (const size_t available = available_system_bytes(); bytes > available) {
    give_back(bytes);
    return fail(
        Code::kResourceExhausted,
        fmt::format("{} needs {}, but the machine has {} of memory left; remove a tenant or add "
                    "memory",
                    what, format_bytes(bytes), format_bytes(available)));
  }
  return {};
}

void MemoryBudget::give_back(size_t bytes) {
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

Result<LazyMapping> LazyMapping::reserve(size_t bytes) {
  LazyMapping mapping;
  mapping.data_ = map(std::max<size_t>(bytes, 1));
  if (mapping.data_ == nullptr)
    return fail(Code::kResourceExhausted, fmt::format("cannot reserve {} of addresses: {}",
                                                      format_bytes(bytes), errno_text(errno)));
  mapping.bytes_ = bytes;
  return mapping;
}

LazyMapping::LazyMapping(LazyMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

LazyMapping& LazyMapping::operator=(LazyMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

LazyMapping::~LazyMapping() {
  if (data_ != nullptr) munmap(data_, std::max<size_t>(bytes_, 1));
}

Result<std::unique_ptr<Buffer>> allocate_host_buffer(std::shared_ptr<MemoryBudget> budget,
                                                     size_t bytes) {
  if (bytes > SIZE_MAX / 2)
    return fail(Code::kResourceExhausted,
                fmt::format("a buffer of {} bytes exceeds the address space", bytes));
  const size_t mapped_bytes = round_up(std::max<size_t>(bytes, 1), kPageBytes);
  ITIF_TRY(budget->take(mapped_bytes, "a buffer"));
  std::byte* data = map(mapped_bytes);
  // Huge pages avoid most TLB misses of activations and weights.
  if (data != nullptr && mapped_bytes >= kHugePageBytes) madvise(data, mapped_bytes, MADV_HUGEPAGE);
  const int error = data == nullptr ? errno : populate(data, mapped_bytes);
  if (error != 0) {
    if (data != nullptr) munmap(data, mapped_bytes);
    budget->give_back(mapped_bytes);
    return fail(Code::kResourceExhausted, fmt::format("cannot map a buffer of {}: {}",
                                                      format_bytes(bytes), errno_text(error)));
  }
  return std::make_unique<HostBuffer>(std::move(budget), data, bytes, mapped_bytes);
}

Result<std::unique_ptr<SlabMemory>> reserve_host_slab(std::shared_ptr<MemoryBudget> budget,
                                                      size_t slot_bytes, uint32_t max_slots) {
  CHECK(slot_bytes > 0 && max_slots > 0);
  // Slots are whole pages, so that each can be freed separately. Slots of 8 huge pages or more also
  // start on a huge page, which wastes little.
  size_t stride_bytes = round_up(slot_bytes, kPageBytes);
  if (stride_bytes >= 8 * kHugePageBytes) stride_bytes = round_up(slot_bytes, kHugePageBytes);
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
  auto mapping = LazyMapping::reserve(stride_bytes * max_slots + alignment - kPageBytes);
  if (!mapping) return cannot();
  if (alignment == kHugePageBytes) madvise(mapping->data(), mapping->bytes(), MADV_HUGEPAGE);
  return std::make_unique<HostSlabMemory>(std::move(budget), std::move(*mapping), alignment,
                                          stride_bytes, max_slots);
}

}  // namespace itif::device
