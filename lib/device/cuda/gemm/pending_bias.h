// A GEMM's bias that is held for the next launch. An attention or LayerNorm that reads the GEMM's
// result adds the bias as it reads, in f32. This saves a launch that reads and writes the whole
// result.
#pragma once

#include <optional>
#include <utility>

#include "kernels/cuda/operators.h"
#include "kernels/low_rank_args.h"

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
  // Takes the bias, to be added by a separate launch.
  std::optional<Launch> take() { return std::exchange(held_, std::nullopt); }
  // Takes the bias if the operator launched next adds to the same result: the order of the two sums
  // does not matter, so the caller holds the bias again afterwards.
  std::optional<Launch> take_over(const kernels::AddLowRank& args) {
    if (!held_ || held_->args.x != args.out) return std::nullopt;
    return take();
  }

  // Returns the bias if the attention launched next adds it to its queries, keys and values. A
  // shared score matrix may hold rows of several tenants, which a tile's one slot cannot name.
  const kernels::BiasActivation* held_for(DType activation, const kernels::Attention& args) const {
    if (!held_ || held_->args.x != args.qkv || args.segments.empty() || !args.is_plain() ||
        !kernels::cuda::attention_adds_bias(activation, args.head_size))
      return nullptr;
    const kernels::SegmentRows& last = args.segments.back();
    if (held_->args.width != 3 * args.num_heads * args.head_size ||
        last.first_row + last.num_rows > held_->rows.count)
      return nullptr;
    return &held_->args;
  }
  // Takes the bias if the operator of `rows` launched next adds it; else returns an empty slab. The
  // stream calls the overload for its operator, if there is one.
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
