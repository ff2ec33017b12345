// Splits lists of values at commas. Values may be names with settings (sched/policy_spec.h,
// plan/planner_spec.h), which have commas of their own: "das:eta=0.7,fair;sjf" is two policies.
#pragma once

#include <string>
#include <vector>

namespace itif::sim {

// Splits at semicolons if there are any, else at commas.
std::vector<std::string> split_specs(const std::string& text);

}  // namespace itif::sim
