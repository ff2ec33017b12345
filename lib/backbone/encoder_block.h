// The transformer block that encoders repeat: attention and a feed-forward network. In a
// post-LayerNorm block (BERT), a residual and a LayerNorm follow each half. In a pre-LayerNorm
// block (ViT), a LayerNorm precedes each half and a residual follows it; the family launches the
// two halves itself. Families supply the tensor names, the number of blocks, and the attention
// (attention_factory.h).
//
// Every operator runs once per batch for all tenants: GEMMs by tenant ranges, memory-bound
// operators with each row's slot (ITIF's weights rotation).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backbone/attention_factory.h"
#include "backbone/block_gemms.h"
#include "backbone/family.h"

namespace itif::backbone {

// Names of a block's modules, relative to the block.
struct BlockNames {
  std::string_view query, key, value, attention_output, attention_norm, up, down, output_norm;
  bool has_qkv_bias = true;
};

// Returns the names that a tensor may have: `name`, "<prefix>.<name>", and both with LayerNorm's
// old parameter names (gamma, beta).
model::Source tensor(std::string_view prefix, const std::string& name);

// Appends a LayerNorm's two vectors.
void append_norm(std::string_view prefix, const std::string& module, const std::string& title,
                 uint64_t size, std::vector<model::WeightKind>& kinds);
// Appends the weight and the bias of one GEMM that stacks `modules`.
void append_linear(std::string_view prefix, const std::vector<std::string>& modules,
                   const std::string& title, const device::GemmShape& shape,
                   std::vector<model::WeightKind>& kinds);
// Appends the num_block_kinds() kinds of a block. `base` precedes the names of its modules.
void append_block(const model::BackboneSpec& spec, std::string_view prefix, const std::string& base,
                  const std::string& title, const BlockNames& names,
                  std::vector<model::WeightKind>& kinds, const AttentionFactory& attention = {});
// Returns kNumBlockKinds plus the number of kinds that the attention adds.
size_t num_block_kinds(const model::BackboneSpec& spec, const AttentionFactory& attention);

// The output of half a block, to be added to the residual: rows + bias of each row's tenant.
struct Addend {
  const void* rows = nullptr;  // act [num_rows, hidden]
  kernels::Slab bias = {};     // f32 [hidden]; base nullptr: none
};

// The workspace and GEMMs of a block. One object serves all blocks of a backbone sequentially.
class EncoderBlock {
 public:
  // Errors: kResourceExhausted, kUnsupported.
  static Result<std::unique_ptr<EncoderBlock>> make(device::Device& device,
                                                    const model::BackboneSpec& spec,
                                                    const MakeOptions& options,
                                                    const AttentionFactory& attention = {});

  // Runs a post-LayerNorm block in place on hidden [num_rows, hidden]. `base`: its first kind.
  void launch(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
              size_t base, void* hidden) noexcept;
  // Half a block without residual and LayerNorm: x [num_rows, hidden] → [num_rows, hidden]. The
  // result is in the block's workspace and valid until the next half. REQUIRES: x is not such a
  // result.
  Addend launch_attention(device::Stream& stream, const model::WeightView& weights,
                          const Pass& pass, size_t base, const void* x) noexcept;
  Addend launch_feed_forward(device::Stream& stream, const model::WeightView& weights,
                             const Pass& pass, size_t base, const void* x) noexcept;
  uint64_t workspace_bytes() const;

 private:
  EncoderBlock(const model::BackboneSpec& spec, FusionMode fusion_mode);
  Addend addend(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                const PreparedShape& gemm, size_t kind, const void* a) noexcept;

  const model::BackboneSpec spec_;
  PreparedShape out_, up_, down_;
  std::unique_ptr<BlockAttention> attention_;
  std::unique_ptr<device::Buffer> context_;    // [T, hidden]
  std::unique_ptr<device::Buffer> projected_;  // [T, hidden]
  std::unique_ptr<device::Buffer> wide_;       // [T, attention's scratch]; then [T, intermediate]
};

}  // namespace itif::backbone
