// Pads every request to the longest of the batch. A tenant's requests are one mini-batch, and each
// mini-batch is one GEMM. This is the conventional way that ITIF compares with (section 4.1,
// "packages all requests with a fixed length"). Requests that exceed the workspace once padded go
// to further passes.
#include <optional>

#include "plan/cost_model.h"
#include "plan/padded.h"
#include "plan/planner_kind.h"

namespace itif::plan {
namespace {

class Naive final : public Planner {
 public:
  explicit Naive(const PlannerOptions& options) : limits_(options.limits), order_(options.limits) {
    batches_.reserve(limits_.max_requests);
    if (options.tables) costs_.emplace(*options.tables, limits_.max_requests);
  }

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan.clear();
    order_.sort(items);
    pad_to_longest(order_, limits_.max_rows, batches_);
    append_separate_calls(order_, batches_, limits_.max_rows, costs_ ? &*costs_ : nullptr, plan);
  }

 private:
  const PlanLimits limits_;
  RequestOrder order_;
  std::vector<PaddedBatch> batches_;
  std::optional<CostModel> costs_;
};

}  // namespace

PlannerKind naive_planner() {
  return {.make = make_planner_of<Naive>};
}

}  // namespace itif::plan
