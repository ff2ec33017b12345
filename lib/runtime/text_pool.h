// Token ids that the executor had to make itself (texts; ids whose token types depend on them), kept
// from submit() to the end of the request's batch. Slots are reused, so that in steady state nothing
// is allocated. One owner thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace itif::runtime {

struct PreparedText {
  std::vector<int32_t> ids;           // empty: the request's ids stay where they arrived
  std::vector<uint8_t> token_types;   // empty: all 0
};

class TextPool {
 public:
  // A handle ≥ 1 to an empty PreparedText.
  uint32_t acquire() {
    if (free_.empty()) {
      entries_.emplace_back();
      free_.reserve(entries_.size());
      return static_cast<uint32_t>(entries_.size());
    }
    const uint32_t handle = free_.back();
    free_.pop_back();
    return handle;
  }
  void release(uint32_t handle) {
    PreparedText& entry = (*this)[handle];
    entry.ids.clear();
    entry.token_types.clear();
    free_.push_back(handle);
  }
  PreparedText& operator[](uint32_t handle) { return entries_[handle - 1]; }

 private:
  std::deque<PreparedText> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace itif::runtime
