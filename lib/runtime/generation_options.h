// When sequences of a group that generates enter, and when their K/V memory is given back.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace itif::runtime {

// When waiting requests join the sequences that run.
enum class Joining : uint8_t {
  kSteps,  // between any two steps: iteration-level scheduling
  // When all running sequences have ended. The sources of the next batch are encoded before, as far
  // as the K/V cache has room.
  kBatches,
};

// When the K/V memory of an ended sequence is given back. TCB's early memory cleaning (section
// 4.2.2) is kSlot with the planner slotted: "We remove data of slots after generating their
// inference results."
enum class Cleaning : uint8_t {
  kSequence,  // immediately
  // When all sequences of its slot have ended. Its slot is the planner's slot under slotted, the
  // row under concat, and the sequence alone under packed and naive.
  kSlot,
  // When all sequences of its batch have ended. With Joining::kSteps, sequences that entered at the
  // same step are a batch.
  kBatch,
};

struct GenerationOptions {
  Joining joining = Joining::kSteps;
  Cleaning cleaning = Cleaning::kSequence;
};

// "steps" or "batches". Errors: kInvalidArgument.
Result<Joining> parse_joining(std::string_view name);
// "sequence", "slot" or "batch". Errors: kInvalidArgument.
Result<Cleaning> parse_cleaning(std::string_view name);

}  // namespace itif::runtime
