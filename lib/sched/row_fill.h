// Fills the rows of a batch, one after another, within its limits.
//
// A request longer than a row gets a batch of its own, so that every model's longest request runs,
// however low the limits are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "request/request.h"
#include "sched/batch_limits.h"

namespace itif::sched {

class RowFill {
 public:
  // Continues in the last row of `batch`, which outlives this object.
  RowFill(const BatchLimits& limits, std::vector<request::Request*>& batch) noexcept
      : limits_(limits), batch_(batch) {
    for (const request::Request* request : batch) {
      if (request->row != row_) row_tokens_ = 0;
      row_ = request->row;
      count(request->num_tokens);
    }
  }

  // Returns how many more tokens fit in the current row and in the batch.
  uint32_t room() const noexcept {
    const uint64_t row = limits_.rows.tokens - std::min<uint64_t>(row_tokens_, limits_.rows.tokens);
    const uint64_t batch = limits_.max_tokens - std::min<uint64_t>(tokens_, limits_.max_tokens);
    return static_cast<uint32_t>(std::min(row, batch));
  }
  // Returns how many more requests the batch takes.
  uint32_t requests_left() const noexcept {
    return limits_.max_requests - static_cast<uint32_t>(batch_.size());
  }
  // Returns true if the batch has max_requests requests, or its last row no room. max_tokens may be
  // used up before.
  bool full() const noexcept {
    return requests_left() == 0 || (!batch_.empty() && room() == 0 && is_last_row());
  }
  // Moves to the next row. In the last one, stays there and returns false.
  bool next_row() noexcept {
    if (is_last_row()) return false;
    ++row_;
    row_tokens_ = 0;
    return true;
  }
  // Goes back to the first row. REQUIRES: the batch is empty.
  void restart() noexcept { row_ = 0; }
  // Returns true if a request of this length fits in the current row, or in the next one, to which
  // this function then moves. The first request of a batch always fits.
  bool makes_room(uint32_t num_tokens) noexcept {
    if (requests_left() == 0) return false;
    if (num_tokens <= room() || batch_.empty()) return true;
    RowFill next = *this;
    if (!next.next_row() || num_tokens > next.room()) return false;
    next_row();
    return true;
  }
  // Puts the request into the current row. REQUIRES: it fits there, or is the batch's first.
  void put(request::Request* request) noexcept {
    request->row = row_;
    count(request->num_tokens);
    batch_.push_back(request);
  }
  uint32_t row() const noexcept { return row_; }

 private:
  bool is_last_row() const noexcept { return row_ + 1 >= limits_.rows.number; }
  void count(uint32_t num_tokens) noexcept {
    row_tokens_ += num_tokens;
    tokens_ += num_tokens;
    if (row_tokens_ > limits_.rows.tokens) row_ = limits_.rows.number - 1;  // no other joins it
  }

  const BatchLimits limits_;
  std::vector<request::Request*>& batch_;
  uint32_t row_ = 0;
  uint64_t row_tokens_ = 0;
  uint64_t tokens_ = 0;
};

}  // namespace itif::sched
