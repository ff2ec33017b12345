// Takes operator costs from a group's profile (plan/cost_tables.h). GEMMs cost as measured. All
// other operators of a pass cost by the rows of each request, and are charged to attention, the
// only operator that knows the requests' lengths.
#pragma once

#include <cstdint>
#include <memory>

#include "device/sim/operator_costs.h"
#include "plan/planner.h"
#include "runtime/cost/range_costs.h"

namespace itif::sim {

class ProfileCosts final : public device::OperatorCosts {
 public:
  // `parts`: compute threads of the measured device; 0: a GPU. `layers`: attentions of a pass.
  // `request_overhead_ns`: added for each request of a batch.
  // REQUIRES: the tables serve planners and hold shared GEMMs.
  ProfileCosts(uint32_t parts, uint32_t layers, const plan::PlanLimits& limits,
               std::shared_ptr<const plan::CostTables> tables, uint64_t request_overhead_ns);

  // REQUIRES: part is 1. A profile has the costs of the whole device.
  double operator_ns(kernels::Operator op, double part) noexcept override;
  // Part of the profile's other operators.
  double copy_ns(size_t) noexcept override { return 0; }
  double collect_ns(size_t) noexcept override { return 0; }

 private:
  double gemm_ns(const kernels::GroupedGemm& gemm) noexcept;

  const uint32_t parts_, layers_;
  const double request_overhead_ns_;
  const std::shared_ptr<const plan::CostTables> tables_;
  runtime::RangeCosts ranges_;
};

}  // namespace itif::sim
