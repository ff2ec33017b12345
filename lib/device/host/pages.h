// Pages of host memory: allocated before they are used, and freed while their addresses stay.
#pragma once

#include <cstddef>

#include "base/huge_vector.h"  // kHugePageBytes

namespace itif::device {

inline constexpr size_t kPageBytes = 4096;

constexpr size_t round_up_bytes(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Allocates the pages of a mapping. Returns 0 or errno: ENOMEM if a limit does not allow it.
int populate_pages(std::byte* data, size_t bytes);
// Frees the pages of a mapping, which then reads as zero.
void discard_pages(std::byte* data, size_t bytes);

}  // namespace itif::device
