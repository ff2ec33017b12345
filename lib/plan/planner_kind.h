// How the registry makes a planner. lib/plan/<name>.cc defines <name>_planner().
#pragma once

#include <cstdint>
#include <memory>

#include "plan/planner.h"

namespace itif::plan {

struct PlannerKind {
  // REQUIRES: options that make_planner() has checked.
  std::unique_ptr<Planner> (*make)(const PlannerOptions& options);
  bool needs_tables = false;
  bool needs_pricer = false;
  uint32_t max_requests = kMaxPaddedRequests;  // of a batch
  bool has_row_tokens = false;                 // settings that it takes
  bool has_slot_tokens = false;
  bool shares_scores = false;  // its segments share score matrices
};

template <class P>
std::unique_ptr<Planner> make_planner_of(const PlannerOptions& options) {
  return std::make_unique<P>(options);
}

}  // namespace itif::plan
