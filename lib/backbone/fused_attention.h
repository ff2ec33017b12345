// Attention in two launches: one GEMM for query, key and value, then one operator that keeps its
// scores in caches and skips padding.
//
// The thesis fusion mode keeps three GEMMs (fusion_mode.h). On the host, three are never faster
// than one, and slower at few rows, because they read the rows three times. Time of three relative
// to one, each with the faster of sequential and concurrent ranges, 1 to 16 tenants (`itif-bench
// gemm-choice --case qkv`; 2 Zen 4 cores, bf16):
//
//   rows of a tenant      4            32           256
//   hidden 512       1.03 - 1.18  1.00 - 1.03  1.00 - 1.01
//   hidden 768       1.00 - 1.09  1.00 - 1.04  1.01 - 1.02
//   hidden 1024      1.00 - 1.68  1.01 - 1.13  1.00 - 1.01
//
// The choice is therefore not made per group. For a device where three are faster, in_fusion_mode()
// could make it: it shapes the weights before they are packed.
#pragma once

#include <memory>

#include "backbone/block_attention.h"
#include "backbone/block_gemms.h"

namespace itif::backbone {

class FusedAttention final : public BlockAttention {
 public:
  // Errors: kResourceExhausted, kUnsupported.
  static Result<std::unique_ptr<BlockAttention>> make(device::Device& device,
                                                      const model::BackboneSpec& spec,
                                                      const MakeOptions& options);

  void launch(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
              size_t base, const AttentionRows& rows) noexcept override;
  uint32_t scratch_width() const override { return qkv_.shape.n; }

 private:
  explicit FusedAttention(const model::BackboneSpec& spec) : spec_(spec) {}

  const model::BackboneSpec spec_;
  PreparedShape qkv_;
};

}  // namespace itif::backbone
