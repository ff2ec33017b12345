#include "base/huge_vector.h"

#include <sys/mman.h>

#include <cstdint>

namespace itif::internal {
namespace {

size_t round_up(size_t bytes) {
  return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

}  // namespace

void* map_huge_pages(size_t bytes) {
  const size_t size = round_up(bytes);
  // One huge page more, because mmap() aligns to a small one; then unmaps what is not needed.
  const size_t mapped = size + kHugePageBytes;
  void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(data);
  const size_t before =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  if (before != 0) munmap(begin, before);
  munmap(begin + before + size, kHugePageBytes - before);
  madvise(begin + before, size, MADV_HUGEPAGE);
  return begin + before;
}

void unmap_huge_pages(void* data, size_t bytes) noexcept {
  munmap(data, round_up(bytes));
}

}  // namespace itif::internal
