// How long a simulated device takes for an operator. machine_costs.h computes it from a machine's
// peaks; lib/sim/profile_costs.h takes it from a group's profile.
#pragma once

#include <cstddef>

#include "kernels/operators.h"

namespace itif::device {

class OperatorCosts {
 public:
  virtual ~OperatorCosts() = default;
  // `part`: of the device's multiprocessors that the operator runs on, above 0 and at most 1.
  // REQUIRES: `op` points to arguments. Reads only their sizes and spans, never device memory.
  virtual double operator_ns(kernels::Operator op, double part) noexcept = 0;
  // A copy from the device to the host.
  virtual double copy_ns(size_t bytes) noexcept = 0;
  // A batch's inputs, which the host collects from packets and then copies to the device.
  virtual double collect_ns(size_t bytes) noexcept = 0;
};

}  // namespace itif::device
