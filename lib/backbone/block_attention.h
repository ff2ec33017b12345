// The attention of an encoder block, from the block's input to the context that its output
// projection reads. The family chooses it (attention_factory.h). Masks, windows, and rotary or
// relative positions are therefore other implementations, not branches of the block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backbone/family.h"

namespace itif::backbone {

// The rows that attention reads and writes, in the activation type.
struct AttentionRows {
  const void* x = nullptr;  // [T, hidden]: the block's input
  void* scratch = nullptr;  // [T, scratch_width()]
  void* context = nullptr;  // [T, hidden]: the result
};

// One object serves all blocks of a backbone sequentially. One thread at a time.
class BlockAttention {
 public:
  virtual ~BlockAttention() = default;
  // `base` is the block's first weight kind (BlockKind in block_gemms.h). Kinds of the attention
  // itself begin at base + kNumBlockKinds.
  virtual void launch(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                      size_t base, const AttentionRows& rows) noexcept = 0;
  // Values per row of AttentionRows::scratch, which the block shares with its feed-forward network.
  virtual uint32_t scratch_width() const { return 0; }
  // Device memory of this object, without the scratch.
  virtual uint64_t workspace_bytes() const { return 0; }
};

}  // namespace itif::backbone
