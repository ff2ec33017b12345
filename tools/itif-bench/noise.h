// Random numbers for weights of many tenants: drawing each would take longer than what is timed. One
// block is drawn, and read again and again, from different places.
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
