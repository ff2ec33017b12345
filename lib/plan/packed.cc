#include "plan/packed.h"

#include <algorithm>

namespace itif::plan {

void plan_packed(std::span<const Item> items, std::vector<Segment>& segments) {
  segments.clear();
  for (uint32_t i = 0; i < items.size(); ++i)
    segments.push_back({i, items[i].slot, 0, items[i].num_tokens});
  // By item within a slot: std::sort with the index in the key needs no buffer, unlike stable_sort.
  std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
    return a.slot != b.slot ? a.slot < b.slot : a.item < b.item;
  });
  uint32_t row = 0;
  for (Segment& segment : segments) {
    segment.first_row = row;
    row += segment.num_rows;
  }
}

}  // namespace itif::plan
