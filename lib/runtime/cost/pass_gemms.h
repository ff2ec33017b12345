// Decides the ranges and the schedule of each GEMM of a pass.
//
// A pass has a range of rows for each weight slot. In a GEMM whose weights are the same bytes in
// adjacent slots, their ranges become one: tenants that have fine-tuned some layers run together in
// the others. Results are the same, since equal weights are the same factors.
//
// - The GEMM scheduler chooses the modes of joined GEMMs for their own ranges.
// - Planned calls stay as they are, except that adjacent calls of several slots become one GEMM if
//   all their ranges have equal weights. A BatchedGEMM of several weights keeps its equal shapes.
// - Passes in a graph bucket stay as they are: one call by pointers, the same for all tenants.
//
// Allocates only in the constructor. One owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backbone/family.h"
#include "runtime/cost/gemm_scheduler.h"

namespace itif::runtime {

class PassGemms {
 public:
  struct Limits {
    uint32_t max_ranges = 0, max_rows = 0;  // of a pass
    bool joins = true;                      // false: every slot keeps its range, for comparison
  };
  // Distinct lists of joined ranges in a pass. A GEMM that needs a further one keeps the pass's.
  static constexpr size_t kMaxJoined = 32;

  // `parts`: as GemmScheduler's. `num_kinds`: of weights.
  PassGemms(uint32_t parts, size_t num_kinds, const Limits& limits);

  // As GemmScheduler::set_costs().
  void set_costs(std::shared_ptr<const plan::CostTables> costs) {
    scheduler_.set_costs(std::move(costs));
  }

  struct Choice {
    kernels::GemmSchedule schedule;  // of GEMMs with the pass's ranges
    backbone::JoinedGemms joined;
  };
  // `calls`: as planned; empty: the GEMM scheduler chooses. Valid until the next call.
  Choice choose(std::span<const kernels::RowRange> ranges, std::span<const kernels::GemmCall> calls,
                bool has_bucket, const model::WeightView& weights) noexcept;
  // Replaces the GEMM schedule of a pass, or of a decoder's step. Keeps the planned calls of the
  // present one; if there are none, the GEMM scheduler chooses.
  template <class Pass>
  void schedule(const model::WeightView& weights, Pass& pass) noexcept {
    const Choice choice = choose(pass.ranges, pass.gemm_schedule.calls(), pass.has_bucket, weights);
    pass.gemm_schedule = choice.schedule;
    pass.joined = choice.joined;
  }

 private:
  uint8_t join(std::span<const kernels::RowRange> ranges, std::span<const kernels::GemmCall> calls,
               const uint32_t* numbers) noexcept;
  void join_ranges(std::span<const kernels::RowRange> ranges, const uint32_t* numbers) noexcept;
  void join_calls(std::span<const kernels::RowRange> ranges,
                  std::span<const kernels::GemmCall> calls, const uint32_t* numbers) noexcept;
  kernels::GemmSchedule scheduled(std::span<const kernels::RowRange> ranges,
                                  bool has_bucket) noexcept;

  const bool joins_;
  GemmScheduler scheduler_;
  // Memory of the last choice. Spans refer to it, so it never grows beyond its capacity.
  std::vector<backbone::GemmRanges> all_;
  std::vector<uint8_t> of_kind_;
  std::vector<kernels::RowRange> ranges_;
  std::vector<kernels::GemmCall> calls_;
  std::vector<kernels::ShapeMode> modes_;
};

}  // namespace itif::runtime
