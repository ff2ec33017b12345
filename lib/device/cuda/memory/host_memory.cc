#include "device/cuda/memory/host_memory.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "device/cuda/driver/error.h"

namespace itif::device::cuda {
namespace {

constexpr uintptr_t kPage = 4096;
constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kCopyAlignment = 16;

uintptr_t address(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

}  // namespace

RegisteredMemory::~RegisteredMemory() {
  for (const auto& [begin, end] : ranges_) (void)cudaHostUnregister(reinterpret_cast<void*>(begin));
}

Status RegisteredMemory::enter(uintptr_t begin, uintptr_t end) {
  const Status entered = check(cudaHostRegister(reinterpret_cast<void*>(begin), end - begin,
                                                cudaHostRegisterPortable | cudaHostRegisterMapped),
                               "cannot register packet memory with the GPU");
  if (!entered) (void)cudaGetLastError();  // the caller reports it, not the next launch
  return entered;
}

void RegisteredMemory::add_again() {
  const std::unique_lock lock(mutex_);
  std::erase_if(ranges_, [](const auto& range) {
    const Status entered = enter(range.first, range.second);
    if (!entered)
      log::warning("{}; it is copied to pinned memory instead", entered.error().message);
    return !entered;
  });
}

Status RegisteredMemory::add(const void* data, size_t bytes) {
  const std::unique_lock lock(mutex_);
  uintptr_t at = address(data) / kPage * kPage;
  const uintptr_t end = (address(data) + bytes + kPage - 1) / kPage * kPage;
  while (at < end) {
    const auto next = ranges_.upper_bound(at);
    if (next != ranges_.begin() && std::prev(next)->second > at) {
      at = std::prev(next)->second;
      continue;
    }
    const uintptr_t gap_end = next == ranges_.end() ? end : std::min(end, next->first);
    ITIF_TRY(enter(at, gap_end));
    ranges_[at] = gap_end;
    at = gap_end;
  }
  return {};
}

bool RegisteredMemory::holds(const void* data, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  uintptr_t at = address(data);
  const uintptr_t end = at + bytes;
  while (at < end) {
    const auto next = ranges_.upper_bound(at);
    if (next == ranges_.begin() || std::prev(next)->second <= at) return false;
    at = std::prev(next)->second;
  }
  return true;
}

Result<HostReads> HostReads::make(const RegisteredMemory& registered, size_t unregistered_bytes) {
  HostReads made(registered);
  if (unregistered_bytes == 0) return made;
  ITIF_ASSIGN(Pinned chunk, Pinned::allocate(unregistered_bytes));
  made.chunks_.push_back(std::move(chunk));
  return made;
}

const std::byte* HostReads::readable(const std::byte* data, size_t bytes) {
  if (registered_->holds(data, bytes)) return data;
  const size_t needed = (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  while (chunk_ < chunks_.size() && chunks_[chunk_].bytes() - used_ < needed) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    auto made = Pinned::allocate(std::max(kChunkBytes, needed));
    if (!made) return nullptr;
    chunks_.push_back(std::move(*made));
  }
  std::byte* const copy = chunks_[chunk_].data() + used_;
  std::memcpy(copy, data, bytes);
  used_ += needed;
  return copy;
}

void HostReads::clear() noexcept {
  chunk_ = used_ = 0;
}

}  // namespace itif::device::cuda
