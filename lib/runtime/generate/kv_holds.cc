#include "runtime/generate/kv_holds.h"

#include <utility>

#include "base/check.h"

namespace itif::runtime {

void KvHolds::enter(std::span<Sequence* const> entered, const plan::Plan& plan) noexcept {
  if (cleaning_ == Cleaning::kSequence || entered.empty()) return;
  if (cleaning_ == Cleaning::kBatch && batch_ == kNone) batch_ = begin_group();
  uint32_t group = batch_, matrix = plan::kOwnScores;
  for (const plan::Segment& segment : plan.segments) {
    const bool begins_slot = group == kNone || segment.score_matrix == plan::kOwnScores ||
                             segment.score_matrix != matrix;
    if (cleaning_ == Cleaning::kSlot && begins_slot) group = begin_group();
    matrix = segment.score_matrix;
    entered[segment.item]->hold_group = group;
    ++groups_[group].num_running;
  }
}

uint32_t KvHolds::begin_group() noexcept {
  if (unused_groups_.empty()) {
    groups_.emplace_back();
    return static_cast<uint32_t>(groups_.size() - 1);
  }
  const uint32_t group = unused_groups_.back();
  unused_groups_.pop_back();
  return group;
}

void KvHolds::leave(Sequence& sequence) noexcept {
  if (cleaning_ == Cleaning::kSequence) return sequence.release_all(blocks_);
  hold(sequence);
  Group& group = groups_[sequence.hold_group];
  CHECK(group.num_running > 0);
  if (--group.num_running > 0) return;
  while (group.first_held != kNone) {
    const uint32_t at = group.first_held;
    held_[at].blocks.release_all(blocks_);
    group.first_held = std::exchange(held_[at].next, first_unused_);
    first_unused_ = at;
  }
  unused_groups_.push_back(sequence.hold_group);
}

// Takes the sequence's blocks. It gets emptied lists in exchange, which keep their allocations.
void KvHolds::hold(Sequence& sequence) noexcept {
  if (first_unused_ == kNone) {
    first_unused_ = static_cast<uint32_t>(held_.size());
    held_.emplace_back();
  }
  const uint32_t at = first_unused_;
  std::swap(held_[at].blocks, static_cast<SequenceBlocks&>(sequence));
  uint32_t& first = groups_[sequence.hold_group].first_held;
  first_unused_ = std::exchange(held_[at].next, first);
  first = at;
}

}  // namespace itif::runtime
