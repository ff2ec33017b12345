#include "plan/request_order.h"

#include <algorithm>

#include "base/check.h"

namespace itif::plan {

void RequestOrder::sort(std::span<const Item> items) noexcept {
  CHECK(items.size() <= limits_.max_requests);
  items_ = items;
  keys_.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    // A length of 0, or above max_rows, would leave the planners without a mini-batch to choose.
    CHECK(items[i].rank() < 1u << 24 && items[i].num_tokens > 0 &&
          items[i].num_tokens <= limits_.max_rows);
    keys_.push_back(uint64_t{items[i].rank()} << 40 | uint64_t{items[i].num_tokens} << 16 | i);
  }
  std::sort(keys_.begin(), keys_.end());
}

uint32_t RequestOrder::tenant_end(uint32_t rank) const noexcept {
  const uint32_t tenant = slot(rank);
  do ++rank;
  while (rank < size() && slot(rank) == tenant);
  return rank;
}

uint32_t RequestOrder::longest() const noexcept {
  uint32_t longest = 0;
  for (uint32_t rank = 0; rank < size(); ++rank) longest = std::max(longest, length(rank));
  return longest;
}

}  // namespace itif::plan
