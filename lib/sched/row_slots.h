// Puts the requests of a batch into the slots of their rows by first fit, in O(log n) each. Slots
// are numbered over all rows: with s slots per row, row k has the slots [k · s, (k + 1) · s).
//
// One owner thread. Allocates nothing after construction.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"

namespace itif::sched {

class RowSlots {
 public:
  explicit RowSlots(uint32_t max_requests)
      : num_leaves_(std::bit_ceil(std::max(1u, max_requests))), free_(2 * size_t{num_leaves_}) {}

  // Begins a batch whose rows of row_tokens have slots of slot_tokens, at least one each. REQUIRES:
  // slot_tokens > 0.
  void begin(uint32_t row_tokens, uint32_t slot_tokens) noexcept {
    num_slots_ = std::max(1u, row_tokens / slot_tokens);
    slot_tokens_ = slot_tokens;
    begin_row(0);
  }
  // Puts a request of num_tokens into the first slot of the row with room for it. Returns the slot;
  // nullopt: none has room. REQUIRES: rows do not decrease from call to call; at most max_requests
  // fit.
  std::optional<uint32_t> put(uint32_t row, uint32_t num_tokens) noexcept {
    if (row != row_) begin_row(row);
    if (num_tokens > slot_tokens_) return std::nullopt;
    if (free_[1] >= num_tokens) {
      uint32_t node = 1;
      while (node < num_leaves_) {
        node *= 2;
        if (free_[node] < num_tokens) ++node;
      }
      set(node, free_[node] - num_tokens);
      return row * num_slots_ + (node - num_leaves_);
    }
    if (num_open_ == num_slots_) return std::nullopt;
    DCHECK(num_open_ < num_leaves_);
    set(num_leaves_ + num_open_, slot_tokens_ - num_tokens);
    return row * num_slots_ + num_open_++;
  }

 private:
  void begin_row(uint32_t row) noexcept {
    while (num_open_ > 0) set(num_leaves_ + --num_open_, 0);
    row_ = row;
  }
  void set(uint32_t node, uint32_t free_tokens) noexcept {
    free_[node] = free_tokens;
    for (node /= 2; node > 0; node /= 2)
      free_[node] = std::max(free_[2 * size_t{node}], free_[2 * size_t{node} + 1]);
  }

  const uint32_t num_leaves_;
  std::vector<uint32_t> free_;  // a tree of maxima; its leaves are the open slots, in their order
  uint32_t num_slots_ = 0;      // of a row
  uint32_t slot_tokens_ = 0;
  uint32_t num_open_ = 0;  // slots of the row that hold requests
  uint32_t row_ = 0;
};

}  // namespace itif::sched
