// Attention as in ITIF: three GEMMs, split heads with add-bias, a BatchedGEMM for Q·Kᵀ, softmax, a
// BatchedGEMM for P·V, merge heads. Requests are padded to the length of their mini-batch. All
// operators compute the padding too, except that softmax skips padded keys. Adjacent requests of
// one length form one GEMM batch, even if their tenants differ.
#pragma once

#include <memory>
#include <vector>

#include "backbone/block_attention.h"
#include "backbone/block_gemms.h"

namespace itif::backbone {

class ThesisAttention final : public BlockAttention {
 public:
  // Errors: kResourceExhausted, kUnsupported.
  static Result<std::unique_ptr<BlockAttention>> make(device::Device& device,
                                                      const model::BackboneSpec& spec,
                                                      const MakeOptions& options);

  void launch(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
              size_t base, const AttentionRows& rows) noexcept override;
  uint64_t workspace_bytes() const override;

 private:
  explicit ThesisAttention(const model::BackboneSpec& spec) : spec_(spec) {}
  void lay_out(const Pass& pass) noexcept;
  void launch_qkv(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                  size_t base, const void* x) noexcept;

  const model::BackboneSpec spec_;
  PreparedShape part_;  // query, key or value
  size_t part_bytes_ = 0;
  size_t max_scores_ = 0;                               // elements
  std::unique_ptr<device::Buffer> rows_[3], heads_[3];  // query, key, value; [T, hidden] each
  std::unique_ptr<device::Buffer> scores_;              // [segments][heads, rows, rows]
  std::vector<kernels::PaddedSegment> segments_;
  std::vector<kernels::MatrixBatch> scores_of_, values_of_;
};

}  // namespace itif::backbone
