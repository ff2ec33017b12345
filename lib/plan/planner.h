// Lays out batches. A planner is one file and one name in meson.build's list; make_planner.h makes
// it, and reads its settings.
//
// A planner belongs to one thread. It may be replaced between batches: a plan does not refer to its
// planner.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "plan/cost_tables.h"
#include "plan/plan.h"
#include "plan/plan_pricer.h"

namespace itif::plan {

// TCB's B rows of L tokens, which a batch policy may fill.
struct PlannedRows {
  uint32_t number = 0;  // B: as many as fit a pass
  uint32_t tokens = 0;  // L
};

// Rows and slots that the batch policy has filled (TCB, Algorithms 1 and 2). The numbers may have
// gaps.
struct RowChoice {
  std::span<const uint32_t> rows = {};  // the row of each item; empty: the planner fills rows
  // The slot of each item, counted over all rows; empty: the planner fills slots.
  std::span<const uint32_t> slots = {};
  uint32_t slot_tokens = 0;  // 0: the planner chooses the slots' size
};

class Planner {
 public:
  virtual ~Planner() = default;
  // Replaces `plan`. The same items give the same plan. Allocates nothing once `plan` has room for
  // max_requests. REQUIRES: at most max_requests items, each as Item says.
  virtual void plan(std::span<const Item> items, Plan& plan) noexcept = 0;
  // Returns the rows that a policy may fill; none: the planner has no rows of a fixed length.
  virtual std::optional<PlannedRows> rows() const noexcept { return std::nullopt; }
  // As plan(), for a policy that has filled rows or slots. Only planners with rows read the choice.
  // Items of one row or slot share it if they fit together. Items of different ones are kept apart
  // unless filling again pays (RowFilling::fill_few()). REQUIRES: each span is empty or has an
  // element per item.
  virtual void plan_rows(std::span<const Item> items, const RowChoice&, Plan& plan) noexcept {
    this->plan(items, plan);
  }
  // Its name in planner_names.h. Valid for ever.
  std::string_view name() const noexcept { return name_; }

 private:
  friend Result<std::unique_ptr<Planner>> make_planner(std::string_view name,
                                                       const struct PlannerOptions& options);
  std::string_view name_;
};

// Settings of the planners that fill rows, in tokens. 0: the planner chooses (concat.cc,
// slotted.cc).
struct RowSettings {
  uint32_t row_tokens = 0;   // L: the length of a batch row
  uint32_t slot_tokens = 0;  // z: the size of a slot
};

struct PlannerOptions {
  PlanLimits limits = {};
  // Read only while the planner is made. Planners that choose by cost need them; naive uses them,
  // if given, to predict its cost.
  const CostTables* tables = nullptr;
  // Needed by auto; joint uses it, if given.
  std::shared_ptr<PlanPricer> pricer = nullptr;
  RowSettings rows = {};  // make_planner() sets them from the planner's name
};

// Largest batch of the padding planners, in requests: their time is quadratic in it.
inline constexpr uint32_t kMaxPaddedRequests = 4096;

}  // namespace itif::plan
