// Encoders of token ids with learned positions: embeddings and LayerNorm, then blocks. BERT and its
// descendants differ in tensor names, in each layer's stored block, and in the embeddings' width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backbone/encoder_block.h"
#include "backbone/family.h"

namespace itif::backbone {

struct TextEncoderLayout {
  std::string_view prefix;  // of the encoder's tensors in a checkpoint with a head: "bert"
  BlockNames names;
  std::vector<std::string> blocks;       // name of each stored block: "encoder.layer.0."
  std::vector<uint32_t> block_of_layer;  // the stored block that each layer runs
  uint32_t embedding = 0;                // width of the embeddings
  std::string projection = {};           // module: embedding → hidden; empty: equal widths
  AttentionFactory attention = {};       // of every block
};

// The layout with one stored block per layer, named "<stem><layer>.".
TextEncoderLayout plain_layout(const model::BackboneSpec& spec, std::string_view prefix,
                               const std::string& stem, const BlockNames& names);

std::vector<model::WeightKind> text_encoder_kinds(const model::BackboneSpec& spec,
                                                  const TextEncoderLayout& layout);
std::vector<GemmUse> text_encoder_gemms(const model::BackboneSpec& spec,
                                        const TextEncoderLayout& layout);
// If spec.type_vocab is 0, there is no token-type table.
Result<std::unique_ptr<Backbone>> make_text_encoder(device::Device& device,
                                                    const model::BackboneSpec& spec,
                                                    const TextEncoderLayout& layout,
                                                    const MakeOptions& options);

}  // namespace itif::backbone
