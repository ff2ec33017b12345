// Gives the K/V memory of ended sequences back: immediately, or when all sequences of their slot or
// batch have ended (Cleaning).
//
// The accounting of every choice is the same: a held sequence keeps its blocks and its reservation.
// One owner thread. Allocates only when more sequences are held, or run in more groups, than ever
// before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "runtime/generate/kv_blocks.h"
#include "runtime/generate/step_layout.h"
#include "runtime/generation_options.h"

namespace itif::runtime {

class KvHolds {
 public:
  // `blocks` outlives it.
  KvHolds(KvBlocks& blocks, Cleaning cleaning) : blocks_(blocks), cleaning_(cleaning) {}

  // The sequences that enter from now on are another batch.
  void begin_batch() noexcept { batch_ = kNone; }
  // Notes sequences that enter at one step, and the plan of their sources: its item i is
  // entered[i].
  void enter(std::span<Sequence* const> entered, const plan::Plan& plan) noexcept;
  // Takes the memory of a sequence that has ended. Gives back that of its slot or batch if no other
  // sequence of it runs. REQUIRES: the sequence was in enter().
  void leave(Sequence& sequence) noexcept;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Held {
    SequenceBlocks blocks;
    uint32_t next = kNone;  // of its group, or of the unused ones
  };
  // A slot or a batch.
  struct Group {
    uint32_t num_running = 0;
    uint32_t first_held = kNone;
  };
  uint32_t begin_group() noexcept;
  void hold(Sequence& sequence) noexcept;

  KvBlocks& blocks_;
  const Cleaning cleaning_;
  std::vector<Held> held_;
  uint32_t first_unused_ = kNone;  // of held_
  std::vector<Group> groups_;
  std::vector<uint32_t> unused_groups_;
  uint32_t batch_ = kNone;  // the group of the batch that sequences enter, with Cleaning::kBatch
};

}  // namespace itif::runtime
