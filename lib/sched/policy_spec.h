// A batch policy by name with its settings, as users write it: "fair", "das:eta=0.4,fair".
#pragma once

#include <string_view>

#include "base/error.h"

namespace itif::sched {

struct PolicySpec {
  std::string_view name = "fair";  // one of kPolicyNames, so valid for ever
  // das, slotted_das. The part of a row's requests that is chosen by utility alone: η of TCB's
  // Algorithm 1, between 0 and 1. TCB's q is 1 − η.
  double eta = 0.8;
  // das, slotted_das: "weighted". A request's utility is its tenant's weight over its length, not 1
  // over its length.
  bool weighted = false;
  // das, slotted_das: "fair". No tenant stays below its weighted share (fair_shares.h).
  bool fair = false;
};

// Parses NAME or NAME:SETTING,…. Errors: kInvalidArgument: an unknown name (lists the names), a
// setting that the policy lacks, a setting given twice, a value out of range.
Result<PolicySpec> parse_policy_spec(std::string_view text);

}  // namespace itif::sched
