// Factories of the planners, one per file; planner.cc registers them by name.
#pragma once

#include <memory>

#include "plan/planner.h"

namespace itif::plan {

// REQUIRES: options that make_planner() has checked.
std::unique_ptr<Planner> make_packed(const PlannerOptions& options);  // packed.cc
std::unique_ptr<Planner> make_naive(const PlannerOptions& options);   // naive.cc
std::unique_ptr<Planner> make_turbo(const PlannerOptions& options);   // turbo.cc
std::unique_ptr<Planner> make_itif(const PlannerOptions& options);    // itif.cc

}  // namespace itif::plan
