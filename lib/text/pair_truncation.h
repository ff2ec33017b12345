// The lengths to which two texts are cut if both together do not fit: transformers' truncation
// "longest_first".
#pragma once

#include <algorithm>
#include <cstddef>

namespace itif::text {

struct PairLengths {
  size_t first = 0, second = 0;
};

// Cuts the longer text until both are equal, then both alike. If `room` is odd, the longer text
// keeps one token more.
constexpr PairLengths cut_longest_first(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  size_t shorter = std::min(first, second);
  size_t longer = std::max(shorter, room - std::min(shorter, room));
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = room - shorter;
  }
  return first > second ? PairLengths{longer, shorter} : PairLengths{shorter, longer};
}

}  // namespace itif::text
