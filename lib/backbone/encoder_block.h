// The transformer block that encoders repeat: attention and a feed-forward network, each followed by
// residual and LayerNorm (post-LayerNorm, as BERT), or each behind a LayerNorm of its own and followed by a
// residual (pre-LayerNorm: a family puts the two halves together itself). Families say what its tensors
// are called and how many blocks there are.
//
// Every operator runs once a batch for all tenants: GEMMs by tenant ranges, memory-bound operators with
// each row's slot (ITIF's weights rotation).
//
// Query, key and value are one GEMM. As three side by side, which the thesis's form keeps (fidelity.h), they
// are nowhere faster on the host, and slower at few rows: rows are read three times. Three over one, each by
// the better of in turn and at once, 1 to 16 tenants (`itif-bench gemm-choice --case qkv`; 2 Zen 4 cores, bf16):
//
//   rows of a tenant      4            32           256
//   hidden 512       1.03 - 1.18  1.00 - 1.03  1.00 - 1.01
//   hidden 768       1.00 - 1.09  1.00 - 1.04  1.01 - 1.02
//   hidden 1024      1.00 - 1.68  1.01 - 1.13  1.00 - 1.01
//
// So nothing chooses between them when a group is made. For a device that says otherwise, in_form() would: it
// shapes the weights before they are packed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backbone/family.h"

namespace itif::backbone {

// A block's weight kinds, in this order, whether its LayerNorms stand behind attention and feed-forward
// network or in front of them.
enum BlockKind : size_t {
  kQkvWeight,
  kQkvBias,
  kOutWeight,
  kOutBias,
  kAttentionGamma,
  kAttentionBeta,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias,
  kFfnGamma,
  kFfnBeta,
  kNumBlockKinds
};

// Modules of a block, as they stand behind the block's own name.
struct BlockNames {
  std::string_view query, key, value, attention_output, attention_norm, up, down, output_norm;
  bool has_qkv_bias = true;
};

// What a tensor may be called, the bare model's name first: as it stands, behind "<prefix>.", and with
// the first names of LayerNorm's parameters (gamma, beta).
model::Source tensor(std::string_view prefix, const std::string& name);

// Appends a LayerNorm's two vectors.
void append_norm(std::string_view prefix, const std::string& module, const std::string& title,
                 uint64_t size, std::vector<model::WeightKind>& kinds);
// Appends the weight and the bias of one GEMM, of several modules stacked.
void append_linear(std::string_view prefix, const std::vector<std::string>& modules,
                   const std::string& title, const device::GemmShape& shape,
                   std::vector<model::WeightKind>& kinds);
// Appends the kNumBlockKinds kinds of the block whose modules stand behind `base`.
void append_block(const model::BackboneSpec& spec, std::string_view prefix, const std::string& base,
                  const std::string& title, const BlockNames& names,
                  std::vector<model::WeightKind>& kinds);

// A GEMM and its handle on the device.
struct PreparedShape {
  device::GemmShape shape;
  device::GemmHandle handle = nullptr;
};

struct BlockShapes {
  device::GemmShape qkv, out, up, down;
  explicit BlockShapes(const model::BackboneSpec& spec);
};

class ThesisAttention;

// What one half of a block adds to the residual: rows + bias, each row with its tenant's.
struct Addend {
  const void* rows = nullptr;  // act [num_rows, hidden]
  kernels::Slab bias = {};     // f32 [hidden]; base nullptr: none
};

// The workspace and GEMMs of a block; one serves all blocks of a backbone in turn.
class EncoderBlock {
 public:
  // Errors: kResourceExhausted, kUnsupported.
  static Result<std::unique_ptr<EncoderBlock>> make(device::Device& device,
                                                    const model::BackboneSpec& spec,
                                                    const MakeOptions& options);
  ~EncoderBlock();

  // hidden [num_rows, hidden] → hidden, with the weights whose first kind is `base`.
  void launch(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
              size_t base, void* hidden) noexcept;
  // The halves of a block, without residual and LayerNorm: x [num_rows, hidden] → [num_rows, hidden],
  // which is the block's own and valid until the next half. x is not one of those.
  Addend launch_attention(device::Stream& stream, const model::WeightView& weights,
                          const Pass& pass, size_t base, const void* x) noexcept;
  Addend launch_feed_forward(device::Stream& stream, const model::WeightView& weights,
                             const Pass& pass, size_t base, const void* x) noexcept;
  uint64_t workspace_bytes() const;

 private:
  EncoderBlock(const model::BackboneSpec& spec, Fidelity fidelity);
  Addend addend(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                const PreparedShape& gemm, size_t kind, const void* a) noexcept;

  const model::BackboneSpec spec_;
  PreparedShape qkv_, out_, up_, down_;
  std::unique_ptr<ThesisAttention> thesis_;    // nullptr: fused
  std::unique_ptr<device::Buffer> context_;    // [T, hidden]
  std::unique_ptr<device::Buffer> projected_;  // [T, hidden]
  std::unique_ptr<device::Buffer> wide_;       // [T, 3·hidden] if fused, then [T, intermediate]
};

// out = a · Wᵀ, to be launched. REQUIRES: the GEMM has no bias.
kernels::GroupedGemm product(const kernels::Slab& weight, const Pass& pass,
                             const PreparedShape& gemm, const void* a, void* out) noexcept;
// out = activation(a · Wᵀ + bias) with the weight kind `kind` and the bias behind it, as one operator or,
// where the GEMM has no bias, as two.
void launch_linear(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                   const PreparedShape& gemm, size_t kind, const void* a, void* out) noexcept;

}  // namespace itif::backbone
