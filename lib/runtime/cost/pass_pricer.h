// Predicts how long a plan's passes take, using only the group's measured tables: the GEMMs as the
// device will run them, and the other operators by the rows of each request, padding included.
//
// A planned call costs what its ranges cost, in the mode in which the device runs it. The calls of
// one operator add up. If the device overlaps them on several streams, they take less, in the
// proportion that was measured for as many ranges. Without planned calls, each operator costs what
// the GEMM scheduler would choose for the pass.
//
// GEMMs of layers that tenants have in common cost what their joined ranges cost, as PassGemms
// joins them. The update of an adapter (kernels/low_rank_args.h) costs its part of the GEMM's
// products, at the measured cost of a GEMM over the adapter's adjacent rows: rows that padding or
// other adapters separate are updates of their own, which read its matrices again. A small product
// takes longer than this part of a large one, so these prices are lower bounds.
//
// A pass without planned calls is padded to the graph bucket that GraphBuckets::find() returns for
// it, as in BatchLayout, and replayed. The number of its requests' pieces is not known here: their
// payloads would have to arrive in more than two pieces each to change the choice. A pass without a
// bucket launches kernel by kernel, which bounds its time from below.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "plan/plan_pricer.h"
#include "plan/planner.h"
#include "runtime/cost/pass_gemms.h"
#include "runtime/cost/pass_weights.h"
#include "runtime/cost/range_costs.h"
#include "runtime/graph_buckets.h"

namespace itif::runtime {

// The GEMMs that a pass runs with weights of one kind.
struct KindGemms {
  size_t shape = 0;  // of SharedGemm
  double times = 0;  // 0: none
};

class PassPricer final : public plan::PlanPricer {
 public:
  // `weights`: of the group, whose GEMMs are priced joined; null: no GEMM is joined. `buckets`: the
  // group's; empty: no pass is replayed. REQUIRES: tables->serve_planners(), and shapes in
  // shared_gemms.
  PassPricer(const device::DeviceInfo& device, const plan::PlanLimits& limits,
             std::shared_ptr<const plan::CostTables> tables,
             std::shared_ptr<const PassWeights> weights = nullptr, GraphBuckets buckets = {});

  double price_ns(const plan::Plan& plan) noexcept override;
  bool has_unknown_work(const plan::Plan& plan) noexcept override;

 private:
  using Times = std::array<double, plan::kMaxShapes>;  // GEMMs of each shape

  // About the pass of the last set_work().
  bool has_bucket(const plan::Pass& pass) const noexcept;
  double price_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept;
  void set_work(const plan::Plan& plan, const plan::Pass& pass) noexcept;
  double updates_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept;
  double update_ns(uint32_t adapter, uint32_t num_rows) const noexcept;
  // The GEMMs whose ranges are joined, which are taken out of `times`.
  double joined_gemms_ns(Times& times) noexcept;
  // GEMMs over these ranges: in `calls`, or as the GEMM scheduler would choose if there are none.
  double gemms_ns(std::span<const kernels::RowRange> ranges,
                  std::span<const kernels::GemmCall> calls, const Times& times) noexcept;
  double planned_gemms_ns(std::span<const kernels::RowRange> ranges,
                          std::span<const kernels::GemmCall> calls, const Times& times) noexcept;
  double bucket_gemms_ns(const Times& times) noexcept;
  double shape_ns(size_t num_ranges, size_t shape,
                  std::optional<kernels::GemmMode> mode) const noexcept;

  const uint32_t parts_;
  const GraphBuckets buckets_;
  const std::shared_ptr<const plan::CostTables> tables_;
  const std::shared_ptr<const PassWeights> weights_;
  RangeCosts costs_;
  PassGemms joins_;
  Times times_ = {};  // of a pass
  std::vector<KindGemms> of_kind_;
  // The pass that is priced.
  std::vector<kernels::RowRange> ranges_, call_rows_;
  std::vector<kernels::GemmCall> calls_;
};

// Makes a planner for a group on a device, with the pricer that auto needs and joint uses.
// `tables`: the group's; null: not measured. `weights`, `buckets`: as PassPricer's. Errors: as of
// plan::make_planner().
Result<std::unique_ptr<plan::Planner>> make_group_planner(
    std::string_view name, const device::DeviceInfo& device, const plan::PlanLimits& limits,
    const std::shared_ptr<const plan::CostTables>& tables,
    std::shared_ptr<const PassWeights> weights = nullptr, GraphBuckets buckets = {});

}  // namespace itif::runtime
