#include "backbone/thesis_attention.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/packed_matrix.h"

namespace itif::backbone {

Result<std::unique_ptr<BlockAttention>> ThesisAttention::make(device::Device& device,
                                                              const model::BackboneSpec& spec,
                                                              const MakeOptions& options) {
  std::unique_ptr<ThesisAttention> attention(new ThesisAttention(spec));
  PreparedShape& part = attention->part_;
  part.shape = in_fusion_mode(BlockShapes(spec).qkv, FusionMode::kThesis, 3);
  ITIF_ASSIGN(part.handle, device.prepare(part.shape, options.max_rows));
  ITIF_ASSIGN(attention->part_bytes_, model::gemm_stride_bytes(device, part.shape));
  const size_t element = dtype_bytes(device.info().compute.activations);
  const size_t rows = static_cast<size_t>(options.max_rows) + device.row_slack();
  for (size_t i = 0; i < 3; ++i) {
    ITIF_ASSIGN(attention->rows_[i], device.allocate(rows * spec.hidden * element));
    ITIF_ASSIGN(attention->heads_[i], device.allocate(rows * spec.hidden * element));
  }
  attention->max_scores_ =
      size_t{spec.heads} * options.max_rows * std::min<size_t>(options.max_rows, spec.max_tokens());
  ITIF_ASSIGN(attention->scores_, device.allocate(attention->max_scores_ * element));
  attention->segments_.reserve(options.max_rows);
  attention->scores_of_.reserve(options.max_rows);
  attention->values_of_.reserve(options.max_rows);
  return attention;
}

// A segment's padding extends to the next segment.
void ThesisAttention::lay_out(const Pass& pass) noexcept {
  segments_.clear();
  scores_of_.clear();
  values_of_.clear();
  size_t scores = 0;
  for (size_t i = 0; i < pass.segments.size(); ++i) {
    const kernels::SegmentRows& segment = pass.segments[i];
    const uint32_t end =
        i + 1 < pass.segments.size() ? pass.segments[i + 1].first_row : pass.num_rows;
    const uint32_t rows = end - segment.first_row;
    if (rows == 0) continue;
    const size_t first = size_t{segment.first_row} * spec_.hidden;
    if (scores_of_.empty() || scores_of_.back().m != rows) {
      scores_of_.push_back({first, first, scores, rows, rows, spec_.head_size(), 0});
      values_of_.push_back({scores, first, first, rows, spec_.head_size(), rows, 0});
    }
    scores_of_.back().count += spec_.heads;
    values_of_.back().count += spec_.heads;
    segments_.push_back({segment.first_row, rows, segment.num_rows, scores});
    scores += size_t{spec_.heads} * rows * rows;
  }
  CHECK(scores <= max_scores_);
}

void ThesisAttention::launch_qkv(device::Stream& stream, const model::WeightView& weights,
                                 const Pass& pass, size_t base, const void* x) noexcept {
  const kernels::Slab& slab = weights[base + kQkvWeight];
  const GemmRanges ranges = pass.gemm(base + kQkvWeight);
  kernels::GroupedGemm parts[3];
  for (size_t i = 0; i < 3; ++i)
    parts[i] = product(slab.from(i * part_bytes_), ranges, part_, x, rows_[i]->data());
  stream.launch(kernels::GroupedGemms{parts});
}

void ThesisAttention::launch(device::Stream& stream, const model::WeightView& weights,
                             const Pass& pass, size_t base, const AttentionRows& rows) noexcept {
  lay_out(pass);
  launch_qkv(stream, weights, pass, base, rows.x);
  const kernels::Slab& bias = weights[base + kQkvBias];
  kernels::HeadPart parts[3];
  for (size_t i = 0; i < 3; ++i)
    parts[i] = {.x = rows_[i]->data(),
                .bias = bias.from(i * spec_.hidden * sizeof(float)),
                .out = heads_[i]->data()};
  stream.launch(kernels::SplitHeads{.parts = parts,
                                    .segments = segments_,
                                    .ranges = pass.ranges,
                                    .num_heads = spec_.heads,
                                    .head_size = spec_.head_size()});
  stream.launch(kernels::BatchedGemm{.a = heads_[0]->data(),
                                     .b = heads_[1]->data(),
                                     .is_b_transposed = true,
                                     .out = scores_->data(),
                                     .batches = scores_of_});
  stream.launch(kernels::Softmax{.x = scores_->data(),
                                 .segments = segments_,
                                 .num_heads = spec_.heads,
                                 .head_size = spec_.head_size(),
                                 .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_size()))});
  stream.launch(kernels::BatchedGemm{.a = scores_->data(),
                                     .b = heads_[2]->data(),
                                     .out = rows_[0]->data(),
                                     .batches = values_of_});
  stream.launch(kernels::MergeHeads{.x = rows_[0]->data(),
                                    .out = rows.context,
                                    .segments = segments_,
                                    .num_heads = spec_.heads,
                                    .head_size = spec_.head_size()});
}

uint64_t ThesisAttention::workspace_bytes() const {
  uint64_t bytes = scores_->bytes();
  for (size_t i = 0; i < 3; ++i) bytes += rows_[i]->bytes() + heads_[i]->bytes();
  return bytes;
}

}  // namespace itif::backbone
