// The attention that a family chooses for its blocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backbone/block_attention.h"
#include "backbone/family.h"

namespace itif::backbone {

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
