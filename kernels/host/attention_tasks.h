// Attention cut into tasks of about equal work: a block of queries of one head of one matrix of
// scores, which is that of a segment or is shared by several (Attention::score_matrices). Threads
// draw tasks from a shared counter. Each task packs its head's K and V again, so that
// blocks have at least kMinQueries queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/args.h"

namespace itif::kernels::host {

struct AttentionTask {
  uint32_t first_row = 0;  // of the matrix
  uint32_t length = 0;     // of the matrix, > 0
  uint32_t head = 0;
  uint32_t query_begin = 0;  // within the matrix
  uint32_t query_end = 0;
};

// The mask of a shared matrix (TCB, equation 6): the keys of each query of a task. Ask for
// ascending queries.
class AttentionMask {
 public:
  // Keys [begin, end) of the matrix; none for a query that is padding.
  struct Keys {
    uint32_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
  };
  // Replaces a masked score. Its exponential is 0 beside any other score. It is finite, so that
  // differences and products of such scores are no NaN.
  static constexpr float kMaskedScore = -1e30f;

  AttentionMask(const Attention& args, const AttentionTask& task)
      : segments_(args.segments), task_(task), is_shared_(!args.score_matrices.empty()) {
    const uint32_t first = task.first_row + task.query_begin;
    segment_ = std::partition_point(segments_.begin(), segments_.end(), [first](const auto& s) {
      return s.first_row + s.num_rows <= first;
    });
  }

  // False: every query attends to all keys of the task.
  bool is_shared() const { return is_shared_; }
  Keys keys_of(size_t query) {
    if (!is_shared_) return {0, task_.length};
    const auto row = static_cast<uint32_t>(task_.first_row + query);
    while (segment_ != segments_.end() && segment_->first_row + segment_->num_rows <= row)
      ++segment_;
    if (segment_ == segments_.end() || segment_->first_row > row) return {};
    const uint32_t begin = segment_->first_row - task_.first_row;
    return {begin, begin + segment_->num_rows};
  }
  // Masks the scores of one query with all keys of the task.
  void apply(const Keys& keys, float* scores) const {
    if (!is_shared_) return;
    std::fill(scores, scores + keys.begin, kMaskedScore);
    std::fill(scores + keys.end, scores + task_.length, kMaskedScore);
  }

 private:
  const std::span<const SegmentRows> segments_;
  const AttentionTask& task_;
  const bool is_shared_;
  std::span<const SegmentRows>::iterator segment_;
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

  AttentionTaskCursor(const Attention& args, uint32_t num_threads)
      : args_(args), matrices_(args.score_matrices.empty() ? args.segments : args.score_matrices) {
    uint64_t work = 0;
    for (const SegmentRows& matrix : matrices_) work += uint64_t{matrix.num_rows} * matrix.num_rows;
    work_per_task_ = num_threads <= 1
                         ? UINT64_MAX
                         : work * args.num_heads / (uint64_t{num_threads} * kTasksPerThread) + 1;
    enter_matrix();
  }

  // Returns false if there is no task of this number.
  bool seek(uint64_t number, AttentionTask& task) {
    while (matrix_ < matrices_.size() && number >= first_number_ + matrix_tasks()) {
      first_number_ += matrix_tasks();
      ++matrix_;
      enter_matrix();
    }
    if (matrix_ >= matrices_.size()) return false;
    const uint64_t local = number - first_number_;
    const auto block = static_cast<uint32_t>(local / args_.num_heads);
    task.first_row = matrices_[matrix_].first_row;
    task.length = length_;
    task.head = static_cast<uint32_t>(local % args_.num_heads);
    task.query_begin = block * block_queries_;
    task.query_end = std::min(length_, task.query_begin + block_queries_);
    return true;
  }

 private:
  uint64_t matrix_tasks() const { return uint64_t{num_blocks_} * args_.num_heads; }

  void enter_matrix() {
    if (matrix_ >= matrices_.size()) return;
    length_ = matrices_[matrix_].num_rows;
    num_blocks_ = 0;
    if (length_ == 0) return;
    const uint64_t queries = std::clamp<uint64_t>(work_per_task_ / length_, kMinQueries, 1u << 30);
    num_blocks_ = static_cast<uint32_t>((length_ + queries - 1) / queries);
    // Equal blocks, in multiples of the largest tile of queries.
    block_queries_ = ((length_ + num_blocks_ - 1) / num_blocks_ + 15) / 16 * 16;
    num_blocks_ = (length_ + block_queries_ - 1) / block_queries_;
  }

  const Attention& args_;
  const std::span<const SegmentRows> matrices_;
  uint64_t work_per_task_ = 0;
  uint64_t first_number_ = 0;  // of the matrix's tasks
  size_t matrix_ = 0;
  uint32_t length_ = 0;
  uint32_t num_blocks_ = 0;
  uint32_t block_queries_ = 1;
};

}  // namespace itif::kernels::host
