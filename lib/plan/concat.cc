// Pure ConcatBatching (TCB, section 4.1): requests of all tenants are concatenated in rows of one
// length L, and attention is computed over whole rows, masked to each request's block. Its cost is
// that of L² scores a row, however short the requests.
//
// L is a system parameter in the paper, as is the number of rows B; here rows times L fit a pass.
// With the setting row_tokens, every row of every batch has that length, so that batches of B rows
// take equal times, and the batch policy may fill the rows (DAS). Without it, L is the longest
// request of the batch: shorter rows would not hold it, and longer ones compute more masked scores.
#include "plan/planner_kind.h"
#include "plan/row_filling.h"

namespace itif::plan {
namespace {

class Concat final : public Planner {
 public:
  explicit Concat(const PlannerOptions& options)
      : row_tokens_(options.rows.row_tokens),
        max_rows_(options.limits.max_rows),
        rows_(options.limits) {}

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan_rows(items, {}, plan);
  }
  void plan_rows(std::span<const Item> items, const RowChoice& choice,
                 Plan& plan) noexcept override {
    const uint32_t capacity = row_tokens_ > 0 ? row_tokens_ : longest_of(items);
    rows_.fill_few(items, choice.rows, capacity, plan);
  }
  std::optional<PlannedRows> rows() const noexcept override {
    return planned_rows(row_tokens_, max_rows_);
  }

 private:
  const uint32_t row_tokens_;
  const uint32_t max_rows_;
  RowFilling rows_;
};

}  // namespace

PlannerKind concat_planner() {
  return {.make = make_planner_of<Concat>, .has_row_tokens = true, .shares_scores = true};
}

}  // namespace itif::plan
