// Keeps a group's last batches, each with the planner that laid it out and the times that the
// planner auto expected of each planner. `itifctl group planner` shows them.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

#include "runtime/request_executor.h"

namespace itif::execution {

class RecentBatches {
 public:
  static constexpr size_t kKept = 32;

  // The group's thread. Never waits: a batch is left out while read() runs.
  void add(const runtime::BatchFigures& batch) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    batches_[num_added_++ % kKept] = batch;
  }

  // Oldest first. Any thread.
  std::vector<runtime::BatchFigures> read() const {
    const std::lock_guard lock(mutex_);
    std::vector<runtime::BatchFigures> batches;
    for (size_t i = num_added_ < kKept ? 0 : num_added_ - kKept; i < num_added_; ++i)
      batches.push_back(batches_[i % kKept]);
    return batches;
  }

 private:
  mutable std::mutex mutex_;
  std::array<runtime::BatchFigures, kKept> batches_;
  size_t num_added_ = 0;
};

}  // namespace itif::execution
