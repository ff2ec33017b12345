// Operator costs from a machine's peaks: launch overhead, then the slower of arithmetic and memory
// (Williams et al., "Roofline", 2009), each slowed down while the work is too small to fill the
// machine.
//
// GEMMs and attention are cut into tiles that multiprocessors take in waves; a wave that is not
// full costs as much as a full one. GEMMs use the tile size that is fastest for their shape, and
// split their sums if they have few rows. Other operators give each row to one multiprocessor. An
// operator that machine_costs.cc does not price costs its launch.
//
// A part of the machine has its part of the multiprocessors, rounded to whole ones, and the same
// part of the peaks. Launches and copies cost as much as on the whole machine, so small operators
// gain little from more multiprocessors: throughput over the part has a knee. A real slice may take
// more than its part of the memory's bandwidth while the others leave it; that is not modelled.
#pragma once

#include "device/sim/machine.h"
#include "device/sim/operator_costs.h"

namespace itif::device {

class MachineCosts final : public OperatorCosts {
 public:
  // `machine` outlives the object. REQUIRES: it computes with both types.
  MachineCosts(const Machine& machine, const ComputeTypes& types)
      : machine_(machine), types_(types) {}

  double operator_ns(kernels::Operator op, double part) noexcept override;
  double copy_ns(size_t bytes) noexcept override;
  double collect_ns(size_t bytes) noexcept override;

 private:
  const Machine& machine_;
  const ComputeTypes types_;
};

}  // namespace itif::device
