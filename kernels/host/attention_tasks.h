// Attention cut into tasks of about equal work: a block of queries of one head of one segment.
// Threads draw tasks from a shared counter. Each task packs its head's K and V again, so that
// blocks have at least kMinQueries queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/args.h"

namespace itif::kernels::host {

struct AttentionTask {
  uint32_t first_row = 0;  // of the segment
  uint32_t length = 0;     // of the segment, > 0
  uint32_t head = 0;
  uint32_t query_begin = 0;  // within the segment
  uint32_t query_end = 0;
};

// Runs a task. `scratch` belongs to the thread.
using AttentionTaskFunction = void (*)(const Attention& args, const AttentionTask& task,
                                       std::byte* scratch);

// Finds the tasks of a batch by number, in a fixed order. One per thread, which asks for ascending
// numbers.
class AttentionTaskCursor {
 public:
  static constexpr uint32_t kMinQueries = 96;
  static constexpr uint32_t kTasksPerThread = 4;

  AttentionTaskCursor(const Attention& args, uint32_t num_threads) : args_(args) {
    uint64_t work = 0;
    for (const SegmentRows& segment : args.segments)
      work += uint64_t{segment.num_rows} * segment.num_rows;
    work_per_task_ = num_threads <= 1
                         ? UINT64_MAX
                         : work * args.num_heads / (uint64_t{num_threads} * kTasksPerThread) + 1;
    enter_segment();
  }

  // Returns false if there is no task of this number.
  bool seek(uint64_t number, AttentionTask& task) {
    while (segment_ < args_.segments.size() && number >= first_number_ + segment_tasks()) {
      first_number_ += segment_tasks();
      ++segment_;
      enter_segment();
    }
    if (segment_ >= args_.segments.size()) return false;
    const uint64_t local = number - first_number_;
    const auto block = static_cast<uint32_t>(local / args_.num_heads);
    task.first_row = args_.segments[segment_].first_row;
    task.length = length_;
    task.head = static_cast<uint32_t>(local % args_.num_heads);
    task.query_begin = block * block_queries_;
    task.query_end = std::min(length_, task.query_begin + block_queries_);
    return true;
  }

 private:
  uint64_t segment_tasks() const { return uint64_t{num_blocks_} * args_.num_heads; }

  void enter_segment() {
    if (segment_ >= args_.segments.size()) return;
    length_ = args_.segments[segment_].num_rows;
    num_blocks_ = 0;
    if (length_ == 0) return;
    const uint64_t queries = std::clamp<uint64_t>(work_per_task_ / length_, kMinQueries, 1u << 30);
    num_blocks_ = static_cast<uint32_t>((length_ + queries - 1) / queries);
    // Equal blocks, in multiples of the largest tile of queries.
    block_queries_ = ((length_ + num_blocks_ - 1) / num_blocks_ + 15) / 16 * 16;
    num_blocks_ = (length_ + block_queries_ - 1) / block_queries_;
  }

  const Attention& args_;
  uint64_t work_per_task_ = 0;
  uint64_t first_number_ = 0;  // of the segment's tasks
  size_t segment_ = 0;
  uint32_t length_ = 0;
  uint32_t num_blocks_ = 0;
  uint32_t block_queries_ = 1;
};

}  // namespace itif::kernels::host
