// Fills weights of many tenants with random numbers. One block is drawn and reused from different
// offsets, because drawing every number would take longer than the measurement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace itif::bench {

// out[i] = block[(from + i) mod size]. REQUIRES: from < block.size().
template <class Element>
void fill_from(std::span<const Element> block, size_t from, std::span<Element> out) {
  while (!out.empty()) {
    const size_t count = std::min(out.size(), block.size() - from);
    std::ranges::copy(block.subspan(from, count), out.begin());
    out = out.subspan(count);
    from = 0;
  }
}

}  // namespace itif::bench
