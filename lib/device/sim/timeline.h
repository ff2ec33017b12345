// The time of a simulated device. The batches of a lane run one after another. A device that is not
// divided has one lane for all streams; a divided one has a lane for each stream. Copies of inputs
// run one after another, beside the batches of all lanes.
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
  struct Work {
    size_t lane = 0;
    double part = 1;         // of the device, that it runs on
    uint64_t copy_ns = 0;    // of its inputs, before the batch; 0: it reads them itself,
    uint64_t inputs_ns = 0;  // in so much of the batch's time
    uint64_t total_ns = 0;
    uint64_t notice_ns = 0;  // from its end until its thread sees it
  };
  // When a batch's inputs have been read, and when its thread sees that it has ended.
  struct Span {
    uint64_t inputs_ns = 0;
    uint64_t end_ns = 0;
  };

  // `clock` outlives the timeline.
  explicit Timeline(VirtualClock& clock) : clock_(clock) {}

  uint64_t now_ns() const noexcept { return clock_.now_ns(); }
  Span add(const Work& work) {
    if (work.lane >= free_at_ns_.size()) free_at_ns_.resize(work.lane + 1);
    uint64_t ready_ns = now_ns();
    if (work.copy_ns > 0)
      ready_ns = copy_free_at_ns_ = std::max(ready_ns, copy_free_at_ns_) + work.copy_ns;
    const uint64_t start_ns = std::max(ready_ns, free_at_ns_[work.lane]);
    const uint64_t end_ns = free_at_ns_[work.lane] = start_ns + work.total_ns;
    busy_ns_ += work.part * static_cast<double>(work.total_ns);
    const Span span = {.inputs_ns = work.copy_ns > 0 ? ready_ns : start_ns + work.inputs_ns,
                       .end_ns = end_ns + work.notice_ns};
    ends_ns_.push_back(span.inputs_ns);
    ends_ns_.push_back(span.end_ns);
    return span;
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
    copy_free_at_ns_ = 0;
    ends_ns_.clear();
  }

 private:
  VirtualClock& clock_;
  std::vector<uint64_t> free_at_ns_;  // end of the last batch, by lane
  uint64_t copy_free_at_ns_ = 0;      // end of the last copy of inputs
  double busy_ns_ = 0;
  bool is_broken_ = false;
  std::vector<uint64_t> ends_ns_;
};

}  // namespace itif::device
