// A GEMM's bias that waits for the next launch. Attention and LayerNorm that read the GEMM's result add it where they
// read, in f32, which spares a launch and a pass over the result, written and read again.
#pragma once

#include <optional>
#include <utility>

#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

class PendingBias {
 public:
  // REQUIRES: none is pending.
  void hold(const kernels::BiasActivation& args, const kernels::cuda::Rows& rows) {
    held_ = {args, rows};
  }

  struct Launch {
    kernels::BiasActivation args;
    kernels::cuda::Rows rows;
  };
  // Of whoever does not add it.
  std::optional<Launch> take() { return std::exchange(held_, std::nullopt); }

  // What is held, if the attention that is launched next adds it to its queries, keys and values.
  const kernels::BiasActivation* held_for(DType activation, const kernels::Attention& args) const {
    if (!held_ || held_->args.x != args.qkv || args.segments.empty() ||
        !kernels::cuda::attention_adds_bias(activation, args.head_size))
      return nullptr;
    const kernels::SegmentRows& last = args.segments.back();
    if (held_->args.width != 3 * args.num_heads * args.head_size ||
        last.first_row + last.num_rows > held_->rows.count)
      return nullptr;
    return &held_->args;
  }
  // Of the LayerNorm that is launched next, of `rows`: likewise.
  kernels::Slab take_for(const kernels::ResidualLayerNorm& args, const kernels::cuda::Rows& rows) {
    if (!held_ || held_->args.x != args.x || held_->args.x == args.residual ||
        args.bias.base != nullptr || held_->args.width != args.hidden ||
        held_->rows.slots != rows.slots || held_->rows.count != rows.count)
      return {};
    return take()->args.bias;
  }

 private:
  std::optional<Launch> held_;
};

}  // namespace itif::device::cuda
