// How much of two texts is kept when both do not fit, as transformers' truncation "longest_first" does.
#pragma once

#include <algorithm>
#include <cstddef>

namespace itif::model {

struct PairLengths {
  size_t first = 0, second = 0;
};

// The longer text gives until both are equal, then both give; an odd one stays the longer's.
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

}  // namespace itif::model
