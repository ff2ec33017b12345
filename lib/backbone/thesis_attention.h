// Attention as ITIF runs it: three GEMMs, split heads with add-bias, a BatchedGEMM for Q·Kᵀ, softmax, a
// BatchedGEMM for P·V, merge heads. Requests are padded to their mini-batch's length, padding included in
// all of it but the keys of softmax. Neighbours of one length, of whatever tenants, are one batch.
#pragma once

#include <memory>
#include <vector>

#include "backbone/encoder_block.h"

namespace itif::backbone {

class ThesisAttention {
 public:
  // Errors: kResourceExhausted, kUnsupported.
  static Result<std::unique_ptr<ThesisAttention>> make(device::Device& device,
                                                       const model::BackboneSpec& spec,
                                                       const MakeOptions& options);

  // x [num_rows, hidden] → context [num_rows, hidden], with the weights whose first kind is `base`.
  void launch(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
              size_t base, const void* x, void* context) noexcept;
  uint64_t workspace_bytes() const;

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
