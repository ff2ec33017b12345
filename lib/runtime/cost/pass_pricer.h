// Predicts how long a plan's passes take, using only the group's measured tables: the GEMMs as the
// device will run them, and the other operators by the rows of each request, padding included.
//
// A planned call costs what its ranges cost, in the mode in which the device runs it. The calls of
// one operator add up. If the device overlaps them on several streams, they take less, in the
// proportion that was measured for as many ranges. Without planned calls, each operator costs what
// the GEMM scheduler would choose for the pass.
//
// On a device with graphs, a small pass without planned calls is padded to a bucket and replayed.
// Every other pass launches kernel by kernel, which bounds its time from below.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "plan/plan_pricer.h"
#include "plan/planner.h"
#include "runtime/cost/range_costs.h"

namespace itif::runtime {

class PassPricer final : public plan::PlanPricer {
 public:
  // REQUIRES: tables->serve_planners(), and shapes in shared_gemms.
  PassPricer(const device::DeviceInfo& device, const plan::PlanLimits& limits,
             std::shared_ptr<const plan::CostTables> tables);

  double price_ns(const plan::Plan& plan) noexcept override;

 private:
  bool has_bucket(const plan::Plan& plan, const plan::Pass& pass) const noexcept;
  double price_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept;
  void set_ranges(const plan::Plan& plan, uint32_t first_mini_batch, uint32_t count) noexcept;
  // The GEMMs of one shape, over the ranges that costs_ has. `mode`: absent: as the GEMM scheduler
  // would choose.
  double shape_ns(size_t shape, std::optional<kernels::GemmMode> mode) const noexcept;
  double gemms_ns() const noexcept;
  double planned_gemms_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept;
  double bucket_gemms_ns() const noexcept;

  const uint32_t parts_, max_bucket_rows_;
  const std::shared_ptr<const plan::CostTables> tables_;
  RangeCosts costs_;
  std::vector<kernels::RowRange> ranges_;
};

// Makes a planner for a group on a device, with the pricer that auto needs. `tables`: the group's;
// null: not measured. Errors: those of plan::make_planner().
Result<std::unique_ptr<plan::Planner>> make_group_planner(
    std::string_view name, const device::DeviceInfo& device, const plan::PlanLimits& limits,
    const std::shared_ptr<const plan::CostTables>& tables);

}  // namespace itif::runtime
