// Slotted ConcatBatching (TCB, section 4.2): a row of L tokens is divided into slots of z tokens.
// Requests are concatenated within a slot, and attention is computed slot by slot (equation 8), so
// that a row costs L · z scores, not L².
//
// slotted_das chooses z and fills the slots. Other policies leave both to the planner: z is the
// setting slot_tokens. Without it, a row has as many equal slots as can each hold the longest
// request: z = ⌊L / ⌊L / longest⌋⌋. More slots would not hold it, and fewer compute more masked
// scores. L is the setting row_tokens; without it, L is the longest request, and so is z.
//
// The planner ignores the policy's slots or rows if that pays (RowFilling::fill_few).
//
// A slot is laid out as a row of concat is. A row ends with its last slot in use: the paper's empty
// slots would be computed for nobody.
#include <algorithm>

#include "plan/planner_kind.h"
#include "plan/row_filling.h"

namespace itif::plan {
namespace {

class Slotted final : public Planner {
 public:
  explicit Slotted(const PlannerOptions& options)
      : settings_(options.rows), max_rows_(options.limits.max_rows), slots_(options.limits) {}

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan_rows(items, {}, plan);
  }
  void plan_rows(std::span<const Item> items, const RowChoice& choice,
                 Plan& plan) noexcept override {
    const uint32_t slot_tokens = choice.slot_tokens > 0 ? std::min(choice.slot_tokens, max_rows_)
                                 : settings_.slot_tokens > 0 ? settings_.slot_tokens
                                                             : default_slot_tokens(items);
    slots_.fill_few(items, choice.slots.empty() ? choice.rows : choice.slots, slot_tokens, plan);
  }
  std::optional<PlannedRows> rows() const noexcept override {
    return planned_rows(settings_.row_tokens, max_rows_);
  }

 private:
  // Requests that are longer than a row have slots of their own.
  uint32_t default_slot_tokens(std::span<const Item> items) const noexcept {
    if (settings_.row_tokens == 0) return longest_of(items);
    const uint32_t longest = longest_of(items, settings_.row_tokens);
    if (longest == 0) return settings_.row_tokens;
    return settings_.row_tokens / (settings_.row_tokens / longest);
  }

  const RowSettings settings_;
  const uint32_t max_rows_;
  RowFilling slots_;
};

}  // namespace

PlannerKind slotted_planner() {
  return {.make = make_planner_of<Slotted>,
          .has_row_tokens = true,
          .has_slot_tokens = true,
          .shares_scores = true};
}

}  // namespace itif::plan
