#include "device/host/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/host/cgroup_memory.h"
#include "device/host/pages.h"

namespace itif::device {
namespace {

// Left to the rest of the system.
constexpr size_t kReserveBytes = 64u << 20;

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
    discard_pages(data_, mapped_bytes_);
    munmap(data_, mapped_bytes_);
    budget_->give_back(mapped_bytes_);
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

 private:
  std::shared_ptr<MemoryBudget> budget_;
  size_t mapped_bytes_;
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
  const size_t mapped_bytes = round_up_bytes(std::max<size_t>(bytes, 1), kPageBytes);
  ITIF_TRY(budget->take(mapped_bytes, "a buffer"));
  std::byte* data = map(mapped_bytes);
  // Huge pages avoid most TLB misses of activations and weights.
  if (data != nullptr && mapped_bytes >= kHugePageBytes) madvise(data, mapped_bytes, MADV_HUGEPAGE);
  const int error = data == nullptr ? errno : populate_pages(data, mapped_bytes);
  if (error != 0) {
    if (data != nullptr) munmap(data, mapped_bytes);
    budget->give_back(mapped_bytes);
    return fail(Code::kResourceExhausted, fmt::format("cannot map a buffer of {}: {}",
                                                      format_bytes(bytes), errno_text(error)));
  }
  return std::make_unique<HostBuffer>(std::move(budget), data, bytes, mapped_bytes);
}

}  // namespace itif::device
