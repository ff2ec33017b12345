// Encoders of token ids with learned positions: embeddings and LayerNorm, then blocks. BERT and what
// descends from it differ in names, in which stored block a layer runs, and in the embeddings' width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backbone/encoder_block.h"
#include "backbone/family.h"

namespace itif::backbone {

struct TextEncoderLayout {
  std::string_view prefix;  // of all tensors, where a head stands beside the model: "bert"
  BlockNames names;
  std::vector<std::string> blocks;  // where each stored block's modules are: "encoder.layer.0."
  std::vector<uint32_t> block_of_layer;  // the stored block that each layer runs
  uint32_t embedding = 0;                // width of the embeddings
  std::string projection = {};           // module: embedding → hidden; empty: they are as wide
  uint32_t position_base = 0;            // row of the position table of a segment's first token
};

// One block a layer, "<stem><layer>.".
TextEncoderLayout plain_layout(const model::BackboneSpec& spec, std::string_view prefix,
                               const std::string& stem, const BlockNames& names);

std::vector<model::WeightKind> text_encoder_kinds(const model::BackboneSpec& spec,
                                                  const TextEncoderLayout& layout);
std::vector<GemmUse> text_encoder_gemms(const model::BackboneSpec& spec,
                                        const TextEncoderLayout& layout);
// spec.type_vocab 0: there is no table of token types.
Result<std::unique_ptr<Backbone>> make_text_encoder(device::Device& device,
                                                    const model::BackboneSpec& spec,
                                                    const TextEncoderLayout& layout,
                                                    const MakeOptions& options);

}  // namespace itif::backbone
