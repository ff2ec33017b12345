// Vectors in transparent huge pages: for large tables that are read at random places, where with
// pages of 4 KiB almost every access would also miss the TLB. Linux gives such pages if
// /sys/kernel/mm/transparent_hugepage/enabled is `always` or `madvise`; otherwise the pages are
// ordinary ones.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <vector>

namespace itif {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

namespace internal {

// Arrays below half a huge page come from the heap.
constexpr bool fills_huge_page(size_t bytes) {
  return bytes >= kHugePageBytes / 2;
}
// Maps at least `bytes`, aligned to a huge page. Throws std::bad_alloc.
void* map_huge_pages(size_t bytes);
// REQUIRES: map_huge_pages(bytes) returned `data`.
void unmap_huge_pages(void* data, size_t bytes) noexcept;

}  // namespace internal

// An allocator of the standard library.
template <class T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <class U>
  HugePageAllocator(const HugePageAllocator<U>&) noexcept {}

  T* allocate(size_t count) {
    if (count > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = count * sizeof(T);
    void* data = internal::fills_huge_page(bytes)
                     ? internal::map_huge_pages(bytes)
                     : ::operator new (bytes, std::align_val_t{alignof(T)});
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t count) noexcept {
    const size_t bytes = count * sizeof(T);
    if (internal::fills_huge_page(bytes))
      internal::unmap_huge_pages(data, bytes);
    else
      ::operator delete (data, bytes, std::align_val_t{alignof(T)});
  }
  bool operator==(const HugePageAllocator&) const noexcept { return true; }
};

template <class T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace itif
