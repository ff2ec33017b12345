// The time of a simulated device. The batches of a lane run one after another. A device that is not
// divided has one lane for all streams; a divided one has a lane for each stream.
//
// Owned by the device; its streams use it. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace itif::device {

class Timeline {
 public:
  // When a batch's inputs have been read, and when it has ended.
  struct Span {
    uint64_t inputs_ns = 0;
    uint64_t end_ns = 0;
  };

  // `clock` outlives the timeline.
  explicit Timeline(VirtualClock& clock) : clock_(clock) {}

  uint64_t now_ns() const noexcept { return clock_.now_ns(); }
  // Adds a batch to a lane, which takes total_ns on `part` of the device, and has read its inputs
  // after inputs_ns of them.
  Span add(size_t lane, uint64_t total_ns, uint64_t inputs_ns, double part) {
    if (lane >= free_at_ns_.size()) free_at_ns_.resize(lane + 1);
    const uint64_t start_ns = std::max(now_ns(), free_at_ns_[lane]);
    const uint64_t end_ns = free_at_ns_[lane] = start_ns + total_ns;
    busy_ns_ += part * static_cast<double>(total_ns);
    ends_ns_.push_back(start_ns + inputs_ns);
    ends_ns_.push_back(end_ns);
    return {.inputs_ns = start_ns + inputs_ns, .end_ns = end_ns};
  }
  void advance_to(uint64_t ns) noexcept {
    if (ns > now_ns()) clock_.advance_ns(ns - now_ns());
  }
  // Returns the next time after now that add() has returned; UINT64_MAX: none.
  uint64_t next_event_ns() noexcept {
    std::erase_if(ends_ns_, [now = now_ns()](uint64_t ns) { return ns <= now; });
    return ends_ns_.empty() ? UINT64_MAX : *std::ranges::min_element(ends_ns_);
  }
  // Time of all batches, each times its part of the device.
  uint64_t busy_ns() const noexcept { return static_cast<uint64_t>(busy_ns_); }

  void break_now() noexcept { is_broken_ = true; }
  bool is_broken() const noexcept { return is_broken_; }
  void reset() noexcept {
    is_broken_ = false;
    free_at_ns_.clear();
    ends_ns_.clear();
  }

 private:
  VirtualClock& clock_;
  std::vector<uint64_t> free_at_ns_;  // end of the last batch, by lane
  double busy_ns_ = 0;
  bool is_broken_ = false;
  std::vector<uint64_t> ends_ns_;
};

}  // namespace itif::device
