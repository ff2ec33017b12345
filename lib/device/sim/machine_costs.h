// Operator costs from a machine's peaks: launch overhead, then the slower of arithmetic and memory
// (Williams et al., "Roofline", 2009), each slowed down while the work is too small to fill the
// machine.
//
// GEMMs and attention are cut into tiles that multiprocessors take in waves; a wave that is not
// full costs as much as a full one. GEMMs use the tile size that is fastest for their shape. Other
// operators give each row to one multiprocessor.
#pragma once

#include <span>

#include "device/sim/machine.h"
#include "device/sim/operator_costs.h"

namespace itif::device {

class MachineCosts final : public OperatorCosts {
 public:
  // `machine` outlives the object. REQUIRES: it computes with both types.
  MachineCosts(const Machine& machine, const ComputeTypes& types)
      : machine_(machine), types_(types) {}

  double operator_ns(kernels::Operator op) noexcept override;
  double copy_ns(size_t bytes) noexcept override;

 private:
  double ns(const kernels::GatherIds& args) const noexcept;
  double ns(const kernels::EmbedLayerNorm& args) const noexcept;
  double ns(const kernels::GatherPatches& args) const noexcept;
  double ns(const kernels::EmbedPatches& args) const noexcept;
  double ns(const kernels::GroupedGemms& args) const noexcept;
  double ns(const kernels::Attention& args) const noexcept;
  double ns(const kernels::ResidualLayerNorm& args) const noexcept;
  double ns(const kernels::PoolSegments& args) const noexcept;
  double ns(const kernels::ToF32& args) const noexcept;
  double ns(const kernels::SmallLinears& args) const noexcept;
  double ns(const kernels::EmbedPositions& args) const noexcept;
  double ns(const kernels::AppendKv& args) const noexcept;
  double ns(const kernels::CopyKv& args) const noexcept;
  double ns(const kernels::CachedAttention& args) const noexcept;
  double ns(const kernels::TopTokens& args) const noexcept;
  double ns(const kernels::BiasActivation& args) const noexcept;
  double ns(const kernels::SplitHeads& args) const noexcept;
  double ns(const kernels::MergeHeads& args) const noexcept;
  double ns(const kernels::BatchedGemm& args) const noexcept;
  double ns(const kernels::Softmax& args) const noexcept;

  // One launch of the GEMMs of all ranges.
  double gemm_ns(const kernels::GroupedGemm& args,
                 std::span<const kernels::RowRange> ranges) const noexcept;
  // Tiles of `flops` each, and bytes that all of them move.
  double tiles_ns(double tiles, double tile_flops, double bytes) const noexcept;
  // A launch that moves bytes, for work on `rows` rows.
  double rows_ns(double rows, double bytes) const noexcept;
  double act_bytes() const noexcept { return static_cast<double>(dtype_bytes(types_.activations)); }

  const Machine& machine_;
  const ComputeTypes types_;
};

}  // namespace itif::device
