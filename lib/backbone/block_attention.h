// The attention of an encoder block, from the block's input to the context that its output
// projection reads. The family chooses it (AttentionFactory). Masks, windows, and rotary or
// relative positions are therefore other implementations, not branches of the block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  // `base` is the block's first weight kind (BlockKind in encoder_block.h). Kinds of the attention
  // itself begin at base + kNumBlockKinds.
  virtual void launch(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                      size_t base, const AttentionRows& rows) noexcept = 0;
  // Values per row of AttentionRows::scratch, which the block shares with its feed-forward network.
  virtual uint32_t scratch_width() const { return 0; }
  // Device memory of this object, without the scratch.
  virtual uint64_t workspace_bytes() const { return 0; }
};

// Makes fused attention (fused_attention.h) or the thesis's (thesis_attention.h), by fusion mode.
// Errors: kResourceExhausted, kUnsupported.
Result<std::unique_ptr<BlockAttention>> make_attention(device::Device& device,
                                                       const model::BackboneSpec& spec,
                                                       const MakeOptions& options);

// A family's attention.
struct AttentionFactory {
  // As make_attention(). A fusion mode that the attention does not have is kUnsupported.
  Result<std::unique_ptr<BlockAttention>> (*make)(device::Device& device,
                                                  const model::BackboneSpec& spec,
                                                  const MakeOptions& options) = make_attention;
  // Returns the weight kinds that the attention adds to a block; nullptr: none. `base` precedes the
  // names of the block's modules, `title` those of its kinds. All blocks have the same number.
  std::vector<model::WeightKind> (*kinds)(const model::BackboneSpec& spec, std::string_view prefix,
                                          const std::string& base,
                                          const std::string& title) = nullptr;
};

}  // namespace itif::backbone
